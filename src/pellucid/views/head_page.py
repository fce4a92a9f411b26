"""Writes what `pellucid heads` found: figures as JSON, or a page of one sentence's heads with them."""

import json
from pathlib import Path

from pellucid.analysis.ablation import Ablation
from pellucid.analysis.heads import Subject, trace_pair
from pellucid.analysis.statistics import HeadTable
from pellucid.errors import ConfigError
from pellucid.files.writing import writable, write_output
from pellucid.views.choice import Choice
from pellucid.views.view import View

SUFFIXES = (".json", ".html")


def check_output(path: str | None) -> None:
    """Raises ConfigError for a file of another kind, DataError where none can be, before anything is computed."""
    if path is None:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ConfigError(f"`{path}` ends in none of {', '.join(SUFFIXES)}", "the ending says what is written")
    writable(path)


def write_heads(path: str | None, subject: Subject, found: HeadTable | Ablation) -> None:
    """Writes JSON, or a page with the model view of the first sentence and the changes of an ablation over its heads.

    Writes nothing where no path is given.
    """
    if path is None:
        return
    if Path(path).suffix.lower() == ".json":
        write_output(path, json.dumps(found.to_json(), indent=1, ensure_ascii=False) + "\n")
        return
    first = subject.texts.pairs[0]
    trace = trace_pair(subject.reader, *first)
    title = f"The heads of {trace.model['name']}: {first[0]}"
    ablation = found if isinstance(found, Ablation) else None
    View(trace, "model", Choice(title=title, ablation=ablation)).html(path)
