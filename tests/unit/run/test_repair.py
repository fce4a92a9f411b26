"""What a run's folder has lost it makes again, as it was, or says what to do."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pellucid.config import Recipe
from pellucid.errors import CheckpointError, ConfigError, DataError
from pellucid.run.average import average_run
from pellucid.run.folder import RunFolder, read_stored_recipe
from pellucid.run.run import train
from pellucid.training.interrupts import TrainingInterrupted
from tests.toy_task import reversed_letters, small_recipe, write_pairs
from tests.unit.run.test_run import at_step, interrupt

AS_IT_WAS = (
    "model.safetensors",
    "pellucid.json",
    "config.json",
    "vocabulary.json",
    "recipe.toml",
    "data/train/index.json",
)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return small_recipe(*write_pairs(tmp_path_factory.mktemp("texts"), reversed_letters(60)))


@pytest.fixture(scope="module")
def unbroken(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    train(recipe, folder, device="cpu", quiet=True)
    return folder


@pytest.fixture(scope="module")
def half_way(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted after its first validation."""
    folder = tmp_path_factory.mktemp("half") / "run"
    with pytest.MonkeyPatch.context() as patch:
        at_step(5, interrupt, patch)
        with pytest.raises(TrainingInterrupted):
            train(recipe, folder, device="cpu", quiet=True)
    return folder


@pytest.fixture
def run(half_way: Path, tmp_path: Path) -> Path:
    return shutil.copytree(half_way, tmp_path / "run")


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff{not = this")


def changed(old: str, new: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


DAMAGE: list[tuple[str, Callable[[Path], None]]] = [
    *((name, harm) for name in AS_IT_WAS[1:] for harm in (Path.unlink, garbage)),
    ("recipe.toml", changed("steps = 6", "steps = 9")),
    ("pellucid.json", changed('"num_heads": 2', '"num_heads": 4')),
    ("vocabulary.json", changed('"a"', '"z"')),
    ("data/train/index.json", changed('"target": "uint16"', '"targ1t": "uint16"')),
    ("data/train/index.json", changed('"source": "uint16"', '"source": "uint99"')),
    ("data/train/index.json", changed('"fingerprint": "', '"fingerprint": "0')),
    ("data/train/target.ids", garbage),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "harm"), DAMAGE)
def test_what_was_damaged_is_made_again(
    recipe: Recipe, unbroken: Path, run: Path, name: str, harm: Callable[[Path], None]
) -> None:
    harm(run / name)
    train(recipe, run, device="cpu", quiet=True)
    for each in AS_IT_WAS:
        assert (run / each).read_bytes() == (unbroken / each).read_bytes(), each


@pytest.mark.slow
def test_all_at_once_is_made_again(
    recipe: Recipe, unbroken: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in AS_IT_WAS:
        (run / name).unlink()
    train(recipe, run, device="cpu")
    for each in AS_IT_WAS:
        assert (run / each).read_bytes() == (unbroken / each).read_bytes(), each
    said = capsys.readouterr().err
    assert f"`{run / 'recipe.toml'}` had changed since it was written; it is written again" in said
    assert f"`{run / 'pellucid.json'}` is missing; rebuilding it from the texts of the run" in said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.safetensors", "pellucid.json", "vocabulary.json"])
def test_a_finished_run_makes_again_what_it_lost(recipe: Recipe, unbroken: Path, tmp_path: Path, name: str) -> None:
    run = shutil.copytree(unbroken, tmp_path / "run")
    (run / name).unlink()
    train(recipe, run, device="cpu", quiet=True)
    for each in AS_IT_WAS:
        assert (run / each).read_bytes() == (unbroken / each).read_bytes(), each
    assert train(recipe, run, device="cpu", quiet=True).already_finished


def without_origin(run: Path) -> None:
    """As an earlier version left the checkpoints."""
    import hashlib

    for path in (run / "checkpoints").glob("step-*/state.json"):
        table = json.loads(path.read_text(encoding="utf-8"))
        for key in ("sha256", "origin"):
            del table[key]
        digest = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps(table | {"sha256": digest}), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pellucid.json", "vocabulary.json"])
def test_a_run_of_an_earlier_version_makes_its_tokenizer_again(
    recipe: Recipe, unbroken: Path, run: Path, name: str
) -> None:
    without_origin(run)
    garbage(run / name)
    train(recipe, run, device="cpu", quiet=True)
    for each in AS_IT_WAS:
        assert (run / each).read_bytes() == (unbroken / each).read_bytes(), each


def test_without_any_recipe_it_is_said(recipe: Recipe, run: Path) -> None:
    without_origin(run)
    (run / "recipe.toml").unlink()
    expected = f"^`{run}` is not empty and is not a run folder: it has checkpoints, but no recipe.toml$"
    with pytest.raises(ConfigError, match=expected) as error:
        train(recipe, run, device="cpu", quiet=True)
    assert error.value.hint == "copy its recipe.toml back, or choose another `out=`"


def test_another_command_does_not_take_the_run_over(run: Path, tmp_path: Path) -> None:
    (run / "recipe.toml").unlink()
    other = small_recipe(*write_pairs(tmp_path, reversed_letters(60)), "train.steps=8")
    with pytest.raises(ConfigError, match=r"has `train.steps = 6`, this command `train.steps = 8`$"):
        train(other, run, device="cpu", quiet=True)
    assert not (run / "recipe.toml").exists()


def test_other_texts_do_not_make_another_tokenizer(run: Path, tmp_path: Path) -> None:
    (run / "vocabulary.json").unlink()
    (run / "data" / "train" / "index.json").unlink()
    other = small_recipe(*write_pairs(tmp_path, reversed_letters(60, seed=9)))
    before = (run / "pellucid.json").read_bytes()
    with pytest.raises(DataError, match=f"^the texts differ from those that the run in `{run}` was started with$"):
        train(other, run, device="cpu", quiet=True)
    assert (run / "pellucid.json").read_bytes() == before


@pytest.mark.slow
def test_a_tokenizer_that_came_from_a_model_is_taken_from_there(
    recipe: Recipe, unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = shutil.copytree(unbroken, tmp_path / "base")

    def tuned(out: Path) -> Path:
        train(recipe, out, init_from=base, device="cpu", quiet=True)
        return out

    expected = tuned(tmp_path / "expected")
    with monkeypatch.context() as patch:
        at_step(5, interrupt, patch)
        with pytest.raises(TrainingInterrupted):
            tuned(tmp_path / "run")
    (tmp_path / "run" / "vocabulary.json").unlink()
    moved = base.rename(tmp_path / "moved")
    with pytest.raises(CheckpointError, match=r"vocabulary.json` is missing, and it cannot be rebuilt") as e:
        tuned(tmp_path / "run")
    assert e.value.hint == f"copy the model `{base}` back, or start over with `fresh=True`"
    moved.rename(base)
    tuned(tmp_path / "run")
    for name in AS_IT_WAS[:4]:
        assert (tmp_path / "run" / name).read_bytes() == (expected / name).read_bytes(), name


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "plan.json", ".lock-holder", "data/train/index.json", "checkpoints/*/state.json"]
)
def test_a_pipe_in_a_file_s_place_is_not_waited_for(recipe: Recipe, run: Path, name: str) -> None:
    path = next(run.glob(name), run / name)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(ConfigError, match=f"^`{path}` is a pipe or a device, but the run requires regular files$"):
        train(recipe, run, device="cpu", quiet=True)


@pytest.mark.parametrize("name", ["metrics.jsonl", ".lock", "config.json", "pellucid.json", "recipe.toml"])
@pytest.mark.parametrize("kind", ["folder", "loop"])
def test_a_folder_in_a_file_s_place_is_named(recipe: Recipe, run: Path, name: str, kind: str) -> None:
    path = run / name
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
        said = "is a folder, but the run requires a file there"
    else:
        path.symlink_to(name)
        said = "is a link to itself"
    with pytest.raises(ConfigError, match=f"^`{path}` {said}$") as error:
        train(recipe, run, device="cpu", quiet=True)
    assert error.value.hint.startswith("move it away and run the same command again")


def test_what_reads_a_run_reads_it_without_its_recipe(recipe: Recipe, run: Path, tmp_path: Path) -> None:
    (run / "recipe.toml").unlink()
    assert read_stored_recipe(run).train.steps == RunFolder(run).check(recipe, fresh=False) * recipe.train.steps == 6
    assert average_run(run, tmp_path / "mean") == 2
