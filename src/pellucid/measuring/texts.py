"""The text that a model's speed is measured on: what it is made for, since real text has real endings."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pellucid.config import RECIPE, DataConfig, Recipe, Task
from pellucid.conversion.proof import own_sentences
from pellucid.data.lines import origin, read_lines
from pellucid.data.locate import locate
from pellucid.data.parallel import ParallelText, held_out_text, parallel_texts
from pellucid.errors import DataError, PellucidError

MOST_LINES = 2000
OWN = "sentences that come with pellucid"
NAMES = {"valid": "validation", "test": "test", "train": "training"}


def measured_text(folder: Path, task: Task, input: str | None) -> tuple[list[str], str]:
    """Returns lines to measure on, none of them blank, and where they are from.

    They are those of `input`; else those that a run was validated on, where they are found; else our own sentences.

    Raises DataError where `input` cannot be read, or has nothing but blank lines.
    """
    if input is not None:
        if lines := _first(read_lines(input)):
            return lines, origin(input).strip("`")
        raise DataError(
            f"{origin(input)} has no text: all of its lines are blank", "give lines as the model reads them"
        )
    for name in ("valid", "test", "train"):
        try:
            named = Recipe.load(folder / RECIPE).data
            text = _text(named, name, alone=not task.targets)
            if text is not None and (lines := _first(text.sources())):
                return lines, f"the run's {NAMES[name]} text, {text.src}"
        except PellucidError:  # it is no run, or its texts have gone
            continue
    return own_sentences(), OWN


def _text(data: DataConfig, name: str, alone: bool) -> ParallelText | None:
    """Returns one of the texts of a run, where it lies now; None where its recipe names none."""
    prefix = "" if name == "train" else f"{name}_"
    named = {field: getattr(data, field) for field in (f"{prefix}src", f"{prefix}tgt", "tsv_columns", "jsonl_keys")}
    found = locate(DataConfig(**named))
    return parallel_texts(found, alone=alone)[0] if name == "train" else held_out_text(found, name, alone=alone)


def _first(lines: Iterator[str]) -> list[str]:
    return list(islice((line for line in lines if line.strip()), MOST_LINES))
