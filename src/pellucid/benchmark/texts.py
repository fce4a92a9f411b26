"""Chooses the text for a speed benchmark: text like the model's training data, since output lengths depend on it."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pellucid.config import RECIPE, DataConfig, Recipe, Task
from pellucid.conversion.proof import read_test_sentences
from pellucid.data.lines import format_display_name, read_lines
from pellucid.data.locate import resolve_paths
from pellucid.data.parallel import ParallelText, get_held_out_text, parallel_texts
from pellucid.errors import DataError, PellucidError

MOST_LINES = 2000
OWN = "sentences that come with pellucid"
NAMES = {"valid": "validation", "test": "test", "train": "training"}


def read_benchmark_text(folder: Path, task: Task, input: str | None) -> tuple[list[str], str]:
    """Returns non-blank lines to measure on, and their origin.

    They are the lines of `input`; else the validation text of a run, if it is found; else built-in sentences.

    Raises DataError if `input` cannot be read or has only blank lines.
    """
    if input is not None:
        if lines := _first(read_lines(input)):
            return lines, format_display_name(input).strip("`")
        raise DataError(
            f"{format_display_name(input)} has no text: all of its lines are blank",
            "use lines of the model's source language",
        )
    for name in ("valid", "test", "train"):
        try:
            named = Recipe.load(folder / RECIPE).data
            text = _text(named, name, alone=not task.targets)
            if text is not None and (lines := _first(text.sources())):
                return lines, f"the run's {NAMES[name]} text, {text.src}"
        except PellucidError:  # not a run, or its texts are missing
            continue
    return read_test_sentences(), OWN


def _text(data: DataConfig, name: str, alone: bool) -> ParallelText | None:
    """Returns one of the texts of a run at its current location; None if its recipe names none."""
    prefix = "" if name == "train" else f"{name}_"
    named = {field: getattr(data, field) for field in (f"{prefix}src", f"{prefix}tgt", "tsv_columns", "jsonl_keys")}
    found = resolve_paths(DataConfig(**named))
    return parallel_texts(found, alone=alone)[0] if name == "train" else get_held_out_text(found, name, alone=alone)


def _first(lines: Iterator[str]) -> list[str]:
    return list(islice((line for line in lines if line.strip()), MOST_LINES))
