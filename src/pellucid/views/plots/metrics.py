"""The lines of a run's log."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.errors import DataError

METRICS = "metrics.jsonl"


def read_metrics(run: str | Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl, or of the file itself; a last one that is still being written is left out.

    Raises DataError where there is no such file, or a line is none of a run's.
    """
    path = Path(run) / METRICS if Path(run).is_dir() else Path(run)
    if not path.is_file():
        raise DataError(f"there is no file `{path}`", "name a run folder that training has begun in")
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            break
        try:
            table = json.loads(line)
            found.append(table | {"event": str(table["event"]), "step": int(table["step"])})
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"line {number} of `{path}` is no line of a run's log", "name a run folder") from error
    return found


def column(lines: list[dict[str, Any]], event: str, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of a key, of the lines of one event that have it."""
    rows = [(line["step"], line[key]) for line in lines if line["event"] == event and _is_number(line.get(key))]
    table = np.array(rows, np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
