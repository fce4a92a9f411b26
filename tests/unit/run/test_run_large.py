"""Runs on texts that are prepared apart: the same as others, and gone on with in the order that they began in."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid.config import Recipe
from pellucid.data import prepare, window_order
from pellucid.errors import DataError
from pellucid.run.run import Run
from pellucid.training.events import StepEvent
from tests.toy_task import reversed_letters, small_recipe, write_pairs

STEPS = 12


def recipe_of(folder: Path, **data: object) -> Recipe:
    write_pairs(folder, reversed_letters(300))
    recipe = small_recipe(str(folder / "train.src"), str(folder / "train.tgt"))
    train = replace(recipe.train, steps=STEPS, save_every=4, validate_every=STEPS, batch_tokens=200, average=1)
    return replace(recipe, data=replace(recipe.data, **data), train=train)  # type: ignore[arg-type]


def weights(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def interrupt(recipe: Recipe, out: Path) -> None:
    run = Run(recipe, out, quiet=True)

    @run.on_step
    def end(event: StepEvent) -> None:
        if event.step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train()


def mark_of(run: Path) -> str:
    state = max((run / "checkpoints").glob("step-*"))
    return str(json.loads((state / "state.json").read_text(encoding="utf-8"))["origin"]["corpus"])


@pytest.mark.slow
def test_a_run_on_prepared_texts_ends_in_the_same_weights_and_starts_without_them(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    Run(recipe, tmp_path / "plain", quiet=True).train()
    kept = replace(recipe, data=replace(recipe.data, cache_dir=str(tmp_path / "prepared")))
    interrupt(kept, tmp_path / "run")
    assert not (tmp_path / "run" / "data" / "train").exists()
    moved = replace(recipe, data=replace(recipe.data, cache_dir=str(tmp_path / "elsewhere")))
    Run(moved, tmp_path / "run", quiet=True).train()
    assert weights(tmp_path / "run") == weights(tmp_path / "plain")


@pytest.mark.slow
def test_a_run_in_windows_is_resumed_within_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_order, "BLOCK", 16)
    monkeypatch.setattr(window_order, "WINDOW", 64)
    recipe = recipe_of(tmp_path)
    Run(recipe, tmp_path / "sorted", quiet=True).train()
    monkeypatch.setattr(window_order, "MOST_SORTED", 100)
    monkeypatch.setattr(prepare, "LEARNED_FROM", 200)
    Run(recipe, tmp_path / "windows", quiet=True).train()
    assert weights(tmp_path / "windows") != weights(tmp_path / "sorted")
    interrupt(recipe, tmp_path / "run")
    assert mark_of(tmp_path / "run").endswith(prepare.IN_WINDOWS)
    Run(recipe, tmp_path / "run", quiet=True).train()
    assert weights(tmp_path / "run") == weights(tmp_path / "windows")


@pytest.mark.slow
def test_a_changed_text_is_named_before_anything_is_made_of_it(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, cache_dir=str(tmp_path / "prepared"))
    interrupt(recipe, tmp_path / "run")
    there = {path.name for path in (tmp_path / "prepared").iterdir() if path.is_dir()}
    changed = tmp_path / "train.tgt"
    changed.write_text("another\n" + changed.read_text(encoding="utf-8").partition("\n")[2], encoding="utf-8")
    message = f"^the texts differ from those that the run in `{tmp_path / 'run'}` was started with: `{changed}`$"
    with pytest.raises(DataError, match=message):
        Run(recipe, tmp_path / "run", quiet=True)
    assert {path.name for path in (tmp_path / "prepared").iterdir() if path.is_dir()} == there
