"""A classifier and a language model, stopped at any moment, end in the same bytes as if they had not been."""

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import Recipe
from pellucid.run.run import train
from pellucid.training.log import RunLog
from tests.other_tasks import (
    CLASSIFY,
    GENERATE,
    RUNNING,
    labelled_letters,
    small_recipe_for,
    write_alphabet,
    write_labelled,
)
from tests.toy_task import metrics

SETTINGS = ("train.steps=15", "train.accumulate=2", "train.save_every=4", "train.validate_every=5", "train.log_every=2")
TASKS = {"classify": CLASSIFY, "generate": GENERATE, "running": RUNNING}


class KilledError(Exception):
    """Stands for a signal that leaves no time to save anything."""


def recipe_for(name: str, folder: Path) -> Recipe:
    if name == "classify":
        return small_recipe_for(CLASSIFY, *write_labelled(folder, labelled_letters(60)), *SETTINGS)
    return small_recipe_for(TASKS[name], write_alphabet(folder, 40), "", *SETTINGS)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_stopped_again_and_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipe_for(name, tmp_path)
    train(recipe, tmp_path / "unbroken", device="cpu", quiet=True)
    write, stopped = RunLog.write, tmp_path / "stopped"
    for stop in (2, 6, 10, 14):

        def write_and_stop(log: RunLog, event: str, step: int, at: int = stop, **values: Any) -> None:
            write(log, event, step, **values)
            if (event, step) == ("train", at):
                raise KilledError

        monkeypatch.setattr(RunLog, "write", write_and_stop)
        with pytest.raises(KilledError):
            train(recipe, stopped, device="cpu", quiet=True)
    monkeypatch.setattr(RunLog, "write", write)
    result = train(recipe, stopped, device="cpu", quiet=True)
    assert result.steps == 15
    for file in ("model.safetensors", "pellucid.json", "tokenizer.json", "README.md", "recipe.toml", "corpus.json"):
        assert (stopped / file).read_bytes() == (tmp_path / "unbroken" / file).read_bytes(), file
    assert metrics(stopped) == metrics(tmp_path / "unbroken")
    assert ("accuracy" in metrics(stopped)[-1]) == (name == "classify")


@pytest.mark.slow
def test_the_order_of_labels_is_the_runs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on from a model with more labels keeps that model's, after its folder is gone as well."""
    rows = [*labelled_letters(60), *[("h g", "another")] * 3]
    train(small_recipe_for(CLASSIFY, *write_labelled(tmp_path, rows)), tmp_path / "first", device="cpu", quiet=True)
    recipe = small_recipe_for(CLASSIFY, *write_labelled(tmp_path, rows[:60], "second"), *SETTINGS)
    write, run = RunLog.write, tmp_path / "run"

    def write_and_stop(log: RunLog, event: str, step: int, **values: Any) -> None:
        write(log, event, step, **values)
        if (event, step) == ("train", 6):
            raise KilledError

    monkeypatch.setattr(RunLog, "write", write_and_stop)
    with pytest.raises(KilledError):
        train(recipe, run, init_from=tmp_path / "first", device="cpu", quiet=True)
    monkeypatch.setattr(RunLog, "write", write)
    (tmp_path / "first").rename(tmp_path / "gone")
    train(recipe, run, init_from=tmp_path / "first", device="cpu", quiet=True)
    assert json.loads((run / "pellucid.json").read_text(encoding="utf-8"))["labels"] == ["another", "early", "late"]
