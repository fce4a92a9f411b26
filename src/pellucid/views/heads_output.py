"""What `pellucid heads` writes: figures as JSON, or a page of one sentence's heads with them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.analysis.ablation import Ablation
from pellucid.analysis.head_table import HeadTable, mean_statistics
from pellucid.analysis.heads import Subject
from pellucid.errors import ConfigError, DataError
from pellucid.files.writing import writable, write_output
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.task import TextModel
from pellucid.tasks.translator import Translator
from pellucid.tracing.trace import Trace
from pellucid.views.extras import overlay
from pellucid.views.page import write_page

SUFFIXES = (".json", ".html")


def check_output(path: str | None) -> None:
    """Raises ConfigError for a file of another kind, DataError where none can be, before anything is computed."""
    if path is None:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ConfigError(f"`{path}` ends in none of {', '.join(SUFFIXES)}", "the ending says what is written")
    writable(path)


@dataclass(frozen=True, slots=True)
class Traced:
    """The statistics of all heads over sentences."""

    table: HeadTable
    left_out: int
    """Sentences that are longer than the model takes."""

    def report(self, origin: str) -> str:
        """A table for the screen."""
        left_out = f"; {self.left_out:,} that are too long for the model are left out" if self.left_out else ""
        return self.table.report(origin) + left_out


def take_statistics(subject: Subject) -> Traced:
    """The statistics over the sentences, of a translator with their references.

    Raises DataError where all of them are too long for the model.
    """
    pairs = subject.texts.pairs
    refused: list[DataError] = []

    def traces() -> Iterator[Trace]:
        for pair in pairs:
            try:
                yield trace_pair(subject.reader, *pair)
            except DataError as error:
                refused.append(error)
        if len(refused) == len(pairs):
            raise refused[0]

    return Traced(mean_statistics(traces()), len(refused))


def trace_pair(reader: TextModel[Any], source: str, target: str) -> Trace:
    """The trace of one sentence, of a translator with a translation; of a passage as much as a model has room for."""
    if isinstance(reader, Translator):
        return reader.trace(source, target)
    if not isinstance(reader, LanguageModel):
        return reader.trace(source)
    room = reader.model.config.max_positions - len(reader.decode.source_prefix)
    ids = reader.tokenizer.encode(source)
    return reader.trace(source if reader.reads_lines or len(ids) <= room else reader.tokenizer.decode(ids[:room]))


def write_statistics(path: str, subject: Subject, table: HeadTable) -> None:
    """Writes JSON, or a page with the model view."""
    if Path(path).suffix.lower() == ".json":
        _write_json(path, table.to_json())
    else:
        _write_page(path, subject, {})


def write_ablation(path: str, subject: Subject, found: Ablation) -> None:
    """Writes JSON, or a page with the model view and the changes over its heads."""
    if Path(path).suffix.lower() == ".json":
        _write_json(path, found.to_json())
    else:
        _write_page(path, subject, {"ablation": overlay(found)})


def _write_json(path: str, table: dict[str, Any]) -> None:
    write_output(path, json.dumps(table, indent=1, ensure_ascii=False) + "\n")


def _write_page(path: str, subject: Subject, extras: dict[str, Any]) -> None:
    first = subject.texts.pairs[0]
    trace = trace_pair(subject.reader, *first)
    title = f"The heads of {trace.model['name']}: {first[0]}"
    views = ["model", "matrix", "heads"]
    write_page(path, [trace], view="model", views=views, state={}, extras=extras, title=title)
