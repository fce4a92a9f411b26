"""All runs below a folder: the settings in which they differ, how far they are, their scores and their time.

Nothing is loaded but the small files of each run, so that a thousand of them take seconds.
"""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.config import RECIPE
from pellucid.errors import DataError, shown
from pellucid.sweep.scoring import RESULT, TEST_SCORES, find_scores
from pellucid.sweep.table import Column, Table
from pellucid.training.log import METRICS

NOT_COMPARED = ("name", "description", "time", "license", "languages", "data.prepared", "train.init_sha256")
SCORE_COLUMNS = (
    Column("loss", "loss", 4),
    Column("bits_per_byte", "bits/byte", 4),
    Column("accuracy", "accuracy", 4),
    Column("greedy_bleu", "greedy BLEU", 2),
    Column("bleu", "beam BLEU", 2),
    Column("chrf", "beam chrF", 2),
    Column("test_bleu", "test BLEU", 2),
)
COLUMNS = (Column("state", "state"), Column("steps", "steps"), *SCORE_COLUMNS, Column("seconds", "seconds", 0))


@dataclass(frozen=True)
class SurveyedRun:
    """Holds what the files of one run say."""

    folder: Path
    settings: dict[str, Any]
    state: str
    """finished, ended early, began, or at step N."""
    steps: int
    seconds: float | None
    scores: dict[str, float] = field(default_factory=dict)
    """By the keys of SCORE_COLUMNS; those of the model where the run has finished, else of the last validation."""


def find_runs(folder: str | Path) -> Iterator[Path]:
    """Yields the run folders at or below a folder in the order of their names. Links are not followed.

    Raises DataError where there is no such folder.
    """
    if Path(folder).is_file():
        raise DataError(f"`{shown(Path(folder))}` is a file, not a folder", "name one that runs lie below")
    if not Path(folder).is_dir():
        raise DataError(f"there is no folder `{shown(Path(folder))}`", "name one that runs lie below")
    for place, below, files in os.walk(folder):
        below.sort()
        if RECIPE in files and (METRICS in files or RESULT in files or "checkpoints" in below):
            yield Path(place)
            below.clear()


def survey_run(folder: Path) -> SurveyedRun:
    """Reads what a run's files say. Raises DataError for a recipe that cannot be read."""
    try:
        recipe = tomllib.loads((folder / RECIPE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"`{shown(folder / RECIPE)}` cannot be read: {shown(str(error))}") from error
    result = _result(folder)
    validations, last = _log(folder)
    scores: dict[str, Any] = {}
    if result is not None:
        scores = {
            "loss": result.get("valid_loss"), "greedy_bleu": result.get("valid_bleu"),
            "accuracy": result.get("valid_accuracy"),
        }  # fmt: skip
        # Nats a token and bits a byte are in one proportion, since the text is the same in each validation.
        pair = next((v for v in validations if v.get("bits_per_byte") and v.get("loss")), None)
        if pair and scores["loss"] is not None:
            scores["bits_per_byte"] = scores["loss"] * pair["bits_per_byte"] / pair["loss"]
        if found := find_scores(folder):
            scores |= {"bleu": found["bleu"], "chrf": found["chrf"]}
        if found := find_scores(folder, name=TEST_SCORES):
            scores["test_bleu"] = found["bleu"]
    elif validations:
        latest = validations[-1]
        scores = {name: latest.get(name) for name in ("loss", "bits_per_byte", "accuracy")}
        scores["greedy_bleu"] = latest.get("bleu")
    steps = int(result["steps"]) if result else int(last.get("step", 0))
    state = f"at step {steps:,}" if steps else "began"
    if result is not None:
        state = "ended early" if result.get("stopped_early") else "finished"
    seconds = result["seconds"] if result else last.get("seconds")
    numbers = {name: float(value) for name, value in scores.items() if isinstance(value, int | float)}
    return SurveyedRun(folder, _flat(recipe), state, steps, seconds, numbers)


def differing(runs: list[SurveyedRun]) -> list[str]:
    """Returns the settings that are not alike in all runs, in the order of the recipe."""
    keys = dict.fromkeys(key for run in runs for key in run.settings if key not in NOT_COMPARED)
    return [key for key in keys if len({json.dumps(run.settings.get(key)) for run in runs}) > 1]


def survey_table(root: Path, runs: list[SurveyedRun]) -> Table:
    """Returns a row for each run: its folder, the settings that differ, its state, scores and seconds."""
    keys = differing(runs)
    short = [key.partition(".")[2] or key for key in keys]
    titles = [name if short.count(name) == 1 else key for key, name in zip(keys, short, strict=True)]
    settings = [Column(key, title) for key, title in zip(keys, titles, strict=True)]
    rows = [
        {"run": _below(run.folder, root)}
        | {key: _plain(run.settings.get(key)) for key in keys}
        | {"state": run.state, "steps": run.steps}
        | {column.key: run.scores.get(column.key) for column in SCORE_COLUMNS}
        | {"seconds": run.seconds}
        for run in runs
    ]
    return Table([Column("run", "run"), *settings, *COLUMNS], rows)


def _below(folder: Path, root: Path) -> str:
    return folder.name if folder == root else folder.relative_to(root).as_posix()


def _plain(value: Any) -> Any:
    """Returns a setting as a cell has it."""
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _result(folder: Path) -> dict[str, Any] | None:
    try:
        table: dict[str, Any] = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        int(table["steps"]), float(table["seconds"])
        return table
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _log(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns the validations of a run's log, and its last line of training. A line that is damaged says nothing."""
    validations, last = [], dict[str, Any]()
    try:
        lines = (folder / METRICS).read_bytes().splitlines()
    except OSError:
        return [], {}
    for line in lines:
        try:
            table = json.loads(line)
            event = table["event"]
        except (ValueError, KeyError, TypeError):
            continue
        if event == "validation":
            validations.append(table)
        elif event == "train":
            last = table
    return validations, last


def _flat(recipe: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in recipe.items() if not isinstance(value, dict)}
    for section, table in recipe.items():
        if isinstance(table, dict):
            found |= {f"{section}.{key}": value for key, value in table.items()}
    return found
