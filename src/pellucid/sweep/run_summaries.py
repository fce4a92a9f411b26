"""Lists all runs below a folder: the settings that vary, progress, scores and time.

Only the small files of each run are read, so that a thousand runs take seconds.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.config import RECIPE
from pellucid.config.tables import rename_settings
from pellucid.errors import CheckpointError, ConfigError, DataError, format_value
from pellucid.files.budget import MOST_LOG_BYTES, MOST_SETTINGS_BYTES, read_bytes
from pellucid.files.reading import (
    NOTHING,
    NUMBER,
    WHOLE,
    check_kinds,
    parse_json,
    parse_toml,
    read_stored_table,
    read_text,
)
from pellucid.sweep.scoring import RESULT, TEST_SCORES, find_scores
from pellucid.sweep.table import Column, ReportTable
from pellucid.training.log import METRICS

NOT_COMPARED = ("name", "description", "time", "license", "languages", "data.cache_dir", "train.init_sha256")
SCORE_COLUMNS = (
    Column("loss", "loss", 4),
    Column("bits_per_byte", "bits/byte", 4),
    Column("accuracy", "accuracy", 4),
    Column("greedy_bleu", "greedy BLEU", 2),
    Column("bleu", "beam BLEU", 2),
    Column("chrf", "beam chrF", 2),
    Column("test_bleu", "test BLEU", 2),
)
LOG_KINDS = {
    "step": WHOLE, "seconds": NUMBER, **dict.fromkeys(("loss", "bits_per_byte", "accuracy", "bleu"), NUMBER | NOTHING),
}  # fmt: skip
"""The types of the values that are read from a line of a run's log."""
RESULT_KINDS = {
    "steps": WHOLE, "seconds": NUMBER,
    **dict.fromkeys(("valid_loss", "valid_bleu", "valid_accuracy"), NUMBER | NOTHING),
}  # fmt: skip
"""The types of the values that are read from a run's result.json."""
COLUMNS = (Column("state", "state"), Column("steps", "steps"), *SCORE_COLUMNS, Column("seconds", "seconds", 0))


@dataclass(frozen=True)
class RunSummary:
    """Holds the contents of the files of one run."""

    folder: Path
    settings: dict[str, Any]
    state: str
    """finished, ended early, began, or at step N."""
    steps: int
    seconds: float | None
    scores: dict[str, float] = field(default_factory=dict)
    """By the keys of SCORE_COLUMNS; scores of the model if the run has finished, else of the last validation."""


def find_runs(folder: str | Path) -> Iterator[Path]:
    """Yields the run folders at or below a folder in the order of their names. Symbolic links are not followed.

    Raises DataError if the folder does not exist.
    """
    if Path(folder).is_file():
        raise DataError(f"`{format_value(Path(folder))}` is a file, not a folder", "name a folder that contains runs")
    if not Path(folder).is_dir():
        raise DataError(f"no folder `{format_value(Path(folder))}`", "name a folder that contains runs")
    for place, below, files in os.walk(folder):
        below.sort()
        if RECIPE in files and (METRICS in files or RESULT in files or "checkpoints" in below):
            yield Path(place)
            below.clear()


def summarize_run(folder: Path) -> RunSummary:
    """Reads the files of a run. Raises DataError for a recipe that cannot be read."""
    try:
        settings = _flat(parse_toml(read_text(folder / RECIPE, MOST_SETTINGS_BYTES)))
    except (CheckpointError, ConfigError, ValueError) as error:
        raise DataError(f"`{format_value(folder / RECIPE)}` cannot be read: {format_value(str(error))}") from error
    result = _result(folder)
    validations, last = _log(folder)
    scores: dict[str, Any] = {}
    if result is not None:
        scores = {
            "loss": result.get("valid_loss"), "greedy_bleu": result.get("valid_bleu"),
            "accuracy": result.get("valid_accuracy"),
        }  # fmt: skip
        # Nats per token and bits per byte are proportional, since each validation has the same text.
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
    return RunSummary(folder, settings, state, steps, seconds, numbers)


def find_varying_settings(runs: list[RunSummary]) -> list[str]:
    """Returns the settings that differ between runs, in the order of the recipe."""
    keys = dict.fromkeys(key for run in runs for key in run.settings if key not in NOT_COMPARED)
    return [key for key in keys if len({json.dumps(run.settings.get(key), default=str) for run in runs}) > 1]


def make_runs_table(root: Path, runs: list[RunSummary]) -> ReportTable:
    """Returns a row for each run: its folder, the settings that vary, its state, scores and seconds."""
    keys = find_varying_settings(runs)
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
    return ReportTable([Column("run", "run"), *settings, *COLUMNS], rows)


def _below(folder: Path, root: Path) -> str:
    return folder.name if folder == root else folder.relative_to(root).as_posix()


def _plain(value: Any) -> Any:
    """Returns a setting as the value of a table cell."""
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _result(folder: Path) -> dict[str, Any] | None:
    try:
        table = read_stored_table(folder / RESULT)
        check_kinds(table, RESULT_KINDS, folder / RESULT)
        return {name: table[name] for name in ("steps", "seconds")} | table
    except (CheckpointError, KeyError):
        return None


def _log(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns the validations of a run's log and its last line of training. Damaged lines are skipped."""
    validations, last = [], dict[str, Any]()
    try:
        lines = read_bytes(folder / METRICS, MOST_LOG_BYTES).splitlines()
    except CheckpointError:
        return [], {}
    for line in lines:
        try:
            table = parse_json(line)
            event = table["event"]
            check_kinds(table, LOG_KINDS, folder / METRICS)
        except (CheckpointError, ValueError, KeyError, TypeError):
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
            found |= {f"{section}.{key}": value for key, value in rename_settings(section, table).items()}
    return found
