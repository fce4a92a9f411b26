"""Files that hold both sides of a corpus: a line is a row of columns, or a JSON object."""

import json
from collections.abc import Sequence
from typing import Any

from pellucid.errors import DataError

BOTH_SIDES = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz")
JSON_LINES = (".jsonl", ".jsonl.gz")


def holds_both_sides(path: str) -> bool:
    """Whether a file, by its name, may hold source and target."""
    return path.lower().endswith(BOTH_SIDES)


def from_columns(line: str, place: str, columns: Sequence[int]) -> list[str]:
    """The sides in those columns, counted from 1. Tabs separate them; nothing is quoted.

    Raises DataError at `place`, "line 5 of `x.tsv`", where there are too few.
    """
    cells = line.split("\t")
    if len(cells) < max(columns):
        raise DataError(
            f"{place} has {len(cells)} column{'s' * (len(cells) > 1)}, but source and target are columns "
            f"{columns[0]} and {columns[1]}",
            "columns are separated by tabs; `data.tsv_columns` says which ones are read",
        )
    return [cells[column - 1] for column in columns]


def from_json(line: str, place: str, keys: Sequence[str]) -> list[str]:
    """The strings under those keys of an object. Raises DataError at `place` where it has none."""
    try:
        table = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not JSON: {error}", "each line must be an object of its own") from error
    return [_string(table, key, place) for key in keys]


def _string(table: Any, key: str, place: str) -> str:
    """The string under a key, dots leading into tables within the table."""
    value = table
    for part in [key] if isinstance(table, dict) and key in table else key.split("."):
        if not isinstance(value, dict) or part not in value:
            found = f"its keys: {', '.join(value)}" if isinstance(value, dict) else f"it is {_shown(value)}"
            raise DataError(f"{place} has no `{key}`; {found}", "`data.jsonl_keys` says which ones are read")
        value = value[part]
    if not isinstance(value, str):
        raise DataError(f"`{key}` in {place} is {_shown(value)}, not a string", "give both sides as JSON strings")
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}..."
