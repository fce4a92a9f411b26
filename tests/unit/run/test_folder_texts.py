"""A finished run says so when its texts are other ones, and trains nothing."""

import shutil
from pathlib import Path

import pytest

from pellucid.config import DataConfig, Recipe
from pellucid.run.folder import RunFolder
from pellucid.run.run import train
from tests.toy_task import reversed_letters, small_arguments, small_recipe, write_pairs
from tests.unit.cli.command_line import CommandLine


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, and its texts beside it."""
    for name in ("train.src", "train.tgt"):
        shutil.copy(finished_run.parent / name, tmp_path / name)
    return Path(shutil.copytree(finished_run, tmp_path / "run"))


def data(folder: Path, **texts: object) -> DataConfig:
    return DataConfig(**{"src": str(folder / "train.src"), "tgt": str(folder / "train.tgt"), **texts})  # type: ignore[arg-type]


def test_the_same_texts_are_no_others(run: Path, tmp_path: Path) -> None:
    assert RunFolder(run).find_changed_texts(data(tmp_path)) == ()


def test_texts_that_lie_elsewhere_are_the_same(run: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("train.src", "train.tgt"):
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    assert RunFolder(run).find_changed_texts(data(tmp_path / "elsewhere")) == ()
    assert RunFolder(run).find_changed_texts(DataConfig(src="train.src", tgt="train.tgt"), tmp_path / "elsewhere") == ()


def test_each_other_text_is_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / "train.tgt").write_text("another\n", encoding="utf-8")
    assert RunFolder(run).find_changed_texts(data(tmp_path)) == (str(tmp_path / "train.tgt"),)
    more = (str(tmp_path / "train.src"), str(tmp_path / "train.tgt"))
    assert RunFolder(run).find_changed_texts(data(tmp_path, src=more, tgt=more)) == (more[1], more[0], more[1])


def test_texts_that_are_gone_are_not_missed(run: Path, tmp_path: Path) -> None:
    (tmp_path / "train.tgt").unlink()
    assert RunFolder(run).find_changed_texts(data(tmp_path)) == ()


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"sha256": 1}'])
def test_without_a_record_nothing_is_said(run: Path, tmp_path: Path, text: str | None) -> None:
    (tmp_path / "train.tgt").write_text("another\n", encoding="utf-8")
    if text is None:
        (run / "corpus.json").unlink()
    else:
        (run / "corpus.json").write_text(text, encoding="utf-8")
    assert RunFolder(run).find_changed_texts(data(tmp_path)) == ()


def test_a_finished_run_says_so_and_trains_nothing(run: Path, tmp_path: Path) -> None:
    weights = (run / "model.safetensors").read_bytes()
    recipe = small_recipe(str(tmp_path / "train.src"), str(tmp_path / "train.tgt"))
    assert train(recipe, run).changed_texts == ()
    write_pairs(tmp_path, reversed_letters(50, seed=9))
    result = train(recipe, run)
    assert result.already_finished
    assert result.changed_texts == (recipe.data.src, recipe.data.tgt)
    assert (run / "model.safetensors").read_bytes() == weights
    assert Recipe.load(run / "recipe.toml").train == recipe.train


@pytest.mark.slow
def test_the_command_line_warns(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pellucid = CommandLine(capsys)
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path, reversed_letters(60))
    arguments = [*small_arguments("train.src", "train.tgt", Path("run")), "--device", "cpu"]
    assert pellucid(*arguments).status == 0
    (tmp_path / "train.src").write_text("another\n", encoding="utf-8")
    again = pellucid(*arguments)
    assert again.status == 0
    first, second = again.err.splitlines()
    assert first.startswith("run: already finished, nothing to do; 6 steps")
    assert second == "warning: `train.src` has changed since run was trained; to train on it, use --fresh"
