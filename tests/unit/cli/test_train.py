"""`pellucid train`: a run in one command, and what is said of settings and texts that cannot work."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pellucid.config import Recipe, list_shipped_recipes
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
    assert "\nnote: a BLEU below 5 is too low for use: train longer (`--budget`, `--set train.steps=`)\n" in first.err
    steps = 'translate run "TEXT"', 'inspect run "TEXT" -o look.html', "convert run run.html --to page"
    assert first.err.endswith("\nnext:\n" + "".join(f"  pellucid {step}\n" for step in steps))
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


@pytest.mark.slow
def test_the_folder_alone_names_a_run(pellucid: CommandLine) -> None:
    nothing = pellucid("train", "--out", "run")
    assert nothing.status == 2, "there is no run to go on with, and no text"
    pellucid(*arguments())
    again = pellucid("train", "--out", "run")
    assert (again.status, again.out) == (0, "")
    assert again.err.startswith("run: already finished, nothing to do; 6 steps, validation loss ")
    assert "; the model is the " in again.err
    Path("run/result.json").unlink()
    weights = Path("run/model.safetensors").read_bytes()
    assert pellucid("train", "--out", "run").status == 0
    assert Path("run/model.safetensors").read_bytes() == weights


@pytest.mark.slow
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


@pytest.mark.slow
def test_texts_of_a_recipe_lie_in_a_data_directory(pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("data").mkdir()
    for side in ("src", "tgt"):
        Path(f"train.{side}").rename(f"data/train.{side}")
    missing = pellucid(*arguments())
    assert (missing.status, missing.error) == (2, "no file `train.src`; looked for `train.src`")
    assert missing.hint == "check the path, or name the folder that holds it by `--data-dir` or PELLUCID_DATA"
    monkeypatch.setenv("PELLUCID_DATA", "data")
    assert pellucid(*arguments()).status == 0
    monkeypatch.delenv("PELLUCID_DATA")
    assert pellucid(*arguments("--data-dir", "data")).err.startswith("run: already finished")


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (
            lambda src: src.write_text("a\n" * 1500),
            "`train.src` and `train.tgt` must have the same number of lines, but `train.tgt` has 60 "
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
        (["--set", "train.steps"], "`--set train.steps` has no value", "write `section.key=value`"),
        (["--set", "model.d_model=66"], "`d_model` (66) must be divisible by `num_heads` (4)", "use 64 or 68"),
        (["--set", "train.lr=1"], "unknown key `lr` in [train]; did you mean `learning_rate`?", "keys: steps, "),
        (["--set", "lr=1"], "`--set lr=1` names no section", "write `train.learning_rate=1`"),
        (
            ["--epochs", "3"],
            "pellucid train has no option `--epochs`",
            "it is a setting: write `--set train.steps=N`; an epoch has about as many steps as the corpus has tokens / "
            "`train.batch_tokens`",
        ),
        (
            ["--set", "train.epochs=3"],
            "unknown key `epochs` in [train]; did you mean `steps`?",
            "an epoch has about as",
        ),
        (
            ["--learning-rate", "1e-3"],
            "pellucid train has no option `--learning-rate`",
            "it is a setting: write `--set train.learning_rate=VALUE`",
        ),
        (
            ["other.tgt"],
            "`other.tgt` is not a recipe: neither a TOML file nor a shipped recipe",
            "give each text its own option: --src other.tgt",
        ),
        (["--device", "cuda"], "device `cuda` is not available on this machine", "available are auto, "),
        (["--device", "foo"], "unknown device `foo`", "available are auto, "),
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
        assert (outcome.status, outcome.error) == (2, f"`--{name}` is not given")
    assert pellucid("train").error == "--out is missing"


@pytest.mark.parametrize("fresh", [[], ["--fresh"]])
def test_a_folder_of_something_else_is_left_alone(pellucid: CommandLine, fresh: list[str]) -> None:
    Path("run").mkdir()
    Path("run/letter.txt").write_text("dear", encoding="utf-8")
    outcome = pellucid(*arguments(*fresh))
    assert (outcome.status, outcome.error) == (2, "`run` is not empty and is not a run folder")
    assert [path.name for path in Path("run").iterdir()] == ["letter.txt"]


@pytest.mark.slow
def test_several_corpora(pellucid: CommandLine) -> None:
    """Two files, and one with both sides; one of them seen three times an epoch."""
    rows = reversed_letters(30, seed=2)
    Path("more.tsv").write_text("".join(f"{i}\t{t}\t{s}\n" for i, (s, t) in enumerate(rows)), encoding="utf-8")
    settings = ["--set", "data.tsv_columns=[3, 2]", "--set", "data.corpus_weights=[1, 3]"]
    first = pellucid(*arguments("--src", "more.tsv", *settings))
    assert first.status == 0, first.err
    assert first.err.startswith("texts: 60 pairs in `train.src` and `train.tgt`, 30 pairs in `more.tsv`\n")
    assert "; an epoch samples " in first.err
    stored = Recipe.load("run/recipe.toml").data
    assert (stored.src, stored.tgt, stored.corpus_weights) == (("train.src", "more.tsv"), "train.tgt", (1.0, 3.0))
    assert "| trained on | texts of its author |" in Path("run/README.md").read_text(encoding="utf-8")
    assert pellucid(*arguments("--src", "more.tsv", *settings)).err.startswith("run: already finished")
    other = pellucid(*arguments("--src", "more.tsv", *settings[:3], "data.corpus_weights=[1, 2]"))
    assert (
        other.error
        == "the run in `run` has `data.corpus_weights = [1.0, 3.0]`, this command `data.corpus_weights = [1.0, 2.0]`"
    )
    missing = pellucid(*arguments("--src", "nowhere.de", "--tgt", "train.tgt", "--fresh"))
    assert missing.error == "no file `nowhere.de`; looked for `nowhere.de`"


@pytest.mark.slow
def test_one_file_takes_the_place_of_both_texts_of_a_recipe(pellucid: CommandLine) -> None:
    Path("mine.toml").write_text('[data]\nsrc = "train.src"\ntgt = "train.tgt"\n', encoding="utf-8")
    lines = (json.dumps({"src": s, "tgt": t}) for s, t in reversed_letters(20))
    Path("x.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    small = small_arguments("x.jsonl", "", Path("run"))
    del small[small.index("--tgt") : small.index("--tgt") + 2]
    outcome = pellucid(small[0], "mine.toml", *small[1:])
    assert outcome.status == 0, outcome.err
    assert Recipe.load("run/recipe.toml").data.tgt == ""


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "effect"), [("replace", "replaced by U+FFFD"), ("skip", "left out")])
def test_what_is_said_before_training(pellucid: CommandLine, policy: str, effect: str) -> None:
    lines = Path("train.src").read_bytes().splitlines()
    lines[6] = b"a \xff"
    Path("train.src").write_bytes(b"".join(line + b"\n" for line in lines))
    stopped = pellucid(*arguments())
    assert (stopped.status, stopped.error) == (2, "`train.src` is not UTF-8: line 7, byte 3 is 0xff")
    assert "`--on-bad-utf8`" in stopped.hint
    settings = ["--set", "data.on_too_long=cut", "--set", "data.max_length=4"]
    outcome = pellucid(*arguments("--on-bad-utf8", policy, *settings))
    assert outcome.status == 0
    said = outcome.err.splitlines()
    assert said[0] == "texts: 60 pairs in `train.src` and `train.tgt`"
    assert said[1] == f"  not UTF-8: 1 line, {effect}; first in line 7 of `train.src`: byte 3 is 0xff"
    training = next(number for number, line in enumerate(said) if line.startswith("training: "))
    long = r"  too long: \d+ pairs beyond 4 tokens, cut; first in line \d+ of `train\.src`$"
    assert re.match(long, said[training + 1])
    record = json.loads(Path("run/corpus.json").read_text(encoding="utf-8"))
    assert record["findings"][0] == {
        "fault": "utf8", "count": 1, "path": "train.src", "line": 7, "detail": "byte 3 is 0xff", "of": "lines",
        "effect": effect,
    }  # fmt: skip
    assert said[training].startswith(f"training: {record['training']['pairs']} pairs")


def test_a_word_that_is_no_policy(pellucid: CommandLine) -> None:
    outcome = pellucid(*arguments("--on-bad-utf8", "ignore"))
    assert (outcome.status, outcome.error) == (2, 'unknown `on_bad_utf8` "ignore"')
    assert outcome.hint == 'choose one of "error", "replace", "skip"'


@pytest.mark.slow
def test_the_record_of_an_earlier_corpus_goes_with_its_run(pellucid: CommandLine) -> None:
    assert pellucid(*arguments()).status == 0
    before = Path("run/corpus.json").read_text(encoding="utf-8")
    write_pairs(Path(), reversed_letters(50, seed=9))
    assert pellucid(*arguments("--fresh")).status == 0
    assert Path("run/corpus.json").read_text(encoding="utf-8") != before


@pytest.mark.slow
def test_the_recipe_for_texts_of_your_own(pellucid: CommandLine) -> None:
    """Its settings, its model and its tokenizer, as they are shipped; only fewer steps."""
    assert pellucid("recipes", "your-own").out == list_shipped_recipes()["your-own"].read_text(encoding="utf-8")
    pairs = [(f"the number {i} of {i % 7}", f"die Zahl {i} von {i % 7}") for i in range(400)]
    write_pairs(Path(), pairs, "mine")
    few = ["train.steps=4", "train.warmup_steps=2", "train.decode_and_evaluate=2", "train.batch_tokens=256"]
    settings = [part for setting in few for part in ("--set", setting)]
    outcome = pellucid("train", "your-own", "--src", "mine.src", "--tgt", "mine.tgt", "--out", "own", *settings)
    assert outcome.status == 0, outcome.err
    assert "own: finished after 4 steps" in outcome.err
    default, own = Recipe.load("default"), Recipe.load("your-own")
    assert (own.model, own.data, own.train, own.decode) == (default.model, default.data, default.train, default.decode)


def test_a_second_text_after_src(pellucid: CommandLine) -> None:
    outcome = pellucid("train", "--src", "train.src", "train.tgt", "--out", "run")
    assert (outcome.status, outcome.error) == (
        2,
        "`train.tgt` is not a recipe: neither a TOML file nor a shipped recipe",
    )
    assert outcome.hint == "give each text its own option: --tgt train.tgt"
    texts = ("--src", "train.src", "--tgt", "train.tgt", "--valid-src", "one.src", "two.src")
    outcome = pellucid("train", *texts, "--out", "run")
    assert outcome.error == "`two.src` follows `--valid-src one.src`, which takes one file"
    assert "for another file, repeat the option: `--valid-src one.src --valid-src two.src`" in outcome.hint


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder in which not even root can make anything")
def test_a_place_where_nothing_can_be_made(pellucid: CommandLine) -> None:
    outcome = pellucid("train", "--src", "train.src", "--tgt", "train.tgt", "--out", "/proc/x")
    # Before it is made, nothing tells that it cannot be.
    said = "error: cannot write to `/proc/x`: No such file or directory\n\nhint: choose another `--out`\n"
    assert (outcome.status, outcome.err.endswith(said)) == (2, True)
