"""`pellucid train`: a run in one command, and what is said of settings and texts that cannot work."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pellucid.config import Recipe
from tests.toy_task import reversed_letters, small_arguments, write_pairs
from tests.unit.cli.command_line import CommandLine


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PELLUCID_DATA", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    write_pairs(tmp_path, reversed_letters(60))


def arguments(*options: str) -> list[str]:
    return [*small_arguments("train.src", "train.tgt", Path("run")), *options]


def test_a_run_and_the_same_command_again(pellucid: CommandLine) -> None:
    first = pellucid(*arguments())
    assert (first.status, first.out) == (0, "")
    assert "\nrun: finished after 6 steps, validation loss " in first.err
    weights = Path("run/model.safetensors").read_bytes()
    again = pellucid(*arguments())
    assert (again.status, again.out) == (0, "")
    assert again.err.startswith("run: already finished, nothing to do; 6 steps, validation loss ")
    assert again.err.count("\n") == 1
    assert Path("run/model.safetensors").read_bytes() == weights
    fresh = pellucid(*arguments("--fresh"))
    assert "run: finished after 6 steps" in fresh.err
    assert Path("run/model.safetensors").read_bytes() == weights
    other = pellucid(*arguments("--set", "train.seed=2"))
    assert (other.status, other.error) == (2, "the run in `run` has `train.seed = 1`, this command `train.seed = 2`")


def test_options_are_settings_of_the_recipe(pellucid: CommandLine) -> None:
    """File names that read like TOML values stay names."""
    Path("train.src").rename("1984")
    Path("train.tgt").rename("true")
    write_pairs(Path(), reversed_letters(5), "v")
    options = [*small_arguments("1984", "true", Path("run")), "--valid-src", "v.src", "--valid-tgt", "v.tgt"]
    assert pellucid(*options).status == 0
    stored = Recipe.load("run/recipe.toml")
    assert (stored.data.src, stored.data.tgt) == ("1984", "true")
    assert (stored.data.valid_src, stored.data.valid_tgt) == ("v.src", "v.tgt")
    assert (stored.train.steps, stored.model.d_model) == (6, 16)


def test_texts_of_a_recipe_lie_in_a_data_directory(pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("data").mkdir()
    for side in ("src", "tgt"):
        Path(f"train.{side}").rename(f"data/train.{side}")
    missing = pellucid(*arguments())
    assert (missing.status, missing.error) == (2, "no file `train.src`; looked for `train.src`")
    assert missing.hint == "name the folder that holds it by --data-dir or PELLUCID_DATA"
    monkeypatch.setenv("PELLUCID_DATA", "data")
    assert pellucid(*arguments()).status == 0
    monkeypatch.delenv("PELLUCID_DATA")
    assert pellucid(*arguments("--data-dir", "data")).err.startswith("run: already finished")


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (
            lambda src: src.write_text("a\n" * 1500),
            "`train.src` and `train.tgt` must have as many lines as each other, but `train.tgt` has 60 "
            "and `train.src` 1,500",
        ),
        (lambda src: src.write_bytes(b"a\n" * 59 + b"f\xfcr\n"), "`train.src` is not UTF-8: line 60, byte 2 is 0xfc"),
        (
            lambda src: (src.write_bytes(b""), Path("train.tgt").write_bytes(b"")),
            "`train.src` and `train.tgt` are empty",
        ),
        (lambda src: (src.unlink(), src.mkdir()), "`train.src` is a folder, not a text file"),
        (lambda src: src.unlink(), "no file `train.src`; looked for `train.src`"),
        (lambda src: src.write_bytes(b"\x1f\x8b\x08 no gzip"), "`train.src` is a damaged gzip file after line 0: "),
    ],
    ids=["unequal", "Latin-1", "empty", "folder", "missing", "gzip"],
)
def test_a_text_that_cannot_be_used(pellucid: CommandLine, spoil: Callable[[Path], object], error: str) -> None:
    spoil(Path("train.src"))
    outcome = pellucid(*arguments())
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error.startswith(error)
    assert outcome.hint
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        (["--set", "train.stps=5"], "unknown key `stps` in [train]; did you mean `steps`?", "keys: steps, "),
        (["--set", "trian.steps=5"], "unknown section `trian` in `--set trian.steps=5`; did you mean `train`?", "sec"),
        (["--set", "steps=5"], "`--set steps=5` names no section", "write `train.steps=5`"),
        (["--set", "train.steps"], "`--set train.steps` has no value", "write `--set section.key=value`"),
        (["--set", "model.d_model=66"], "`d_model` (66) must be divisible by `num_heads` (4)", "use 64 or 68"),
        (["--device", "cuda"], "device `cuda` is not on this machine", "this machine has: auto, "),
        (["--device", "foo"], "unknown device `foo`", "this machine has: auto, "),
        (["--sett", "x"], "pellucid train has no option `--sett`; did you mean `--set`?", "options: --help, --out, "),
    ],
)
def test_a_setting_that_cannot_work(pellucid: CommandLine, options: list[str], error: str, hint: str) -> None:
    outcome = pellucid("train", "--src", "train.src", "--tgt", "train.tgt", "--out", "run", *options)
    assert (outcome.status, outcome.error, outcome.out) == (2, error, "")
    assert outcome.hint.startswith(hint)
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[model]\nd_modle = 64", "unknown key `d_modle` in [model]; did you mean `d_model`?"),
        ("[modle]\nd_model = 64", "unknown key `modle` in the recipe; did you mean `model`?"),
        ("[model]\npreset = 'tny'", "unknown preset `tny`; did you mean `tiny`?"),
        ("[train]\nsteps = 'many'", "`steps` must be a whole number, not 'many'"),
        ("[train\nsteps = 5", "`recipe.toml` is not valid TOML: "),
    ],
)
def test_a_recipe_that_cannot_work(pellucid: CommandLine, text: str, error: str) -> None:
    Path("recipe.toml").write_text(text, encoding="utf-8")
    outcome = pellucid("train", "recipe.toml", "--src", "train.src", "--tgt", "train.tgt", "--out", "run")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {error}")
    assert "Traceback" not in outcome.err
    assert not Path("run").exists()


def test_a_recipe_that_there_is_not(pellucid: CommandLine) -> None:
    outcome = pellucid("train", "defualt", "--out", "run")
    expected = "no recipe `defualt`: neither a TOML file nor a shipped recipe; did you mean `default`?"
    assert (outcome.status, outcome.error) == (2, expected)


def test_texts_must_be_named(pellucid: CommandLine) -> None:
    for options, name in (([], "src"), (["--src", "train.src"], "tgt"), (["--tgt", "train.tgt"], "src")):
        outcome = pellucid("train", "--out", "run", *options)
        assert (outcome.status, outcome.error) == (2, f"`data.{name}` is not given")
    assert "--out FOLDER" in pellucid("train").error


@pytest.mark.parametrize("fresh", [[], ["--fresh"]])
def test_a_folder_of_something_else_is_left_alone(pellucid: CommandLine, fresh: list[str]) -> None:
    Path("run").mkdir()
    Path("run/letter.txt").write_text("dear", encoding="utf-8")
    outcome = pellucid(*arguments(*fresh))
    assert (outcome.status, outcome.error) == (2, "`run` is not empty and holds no run")
    assert [path.name for path in Path("run").iterdir()] == ["letter.txt"]
