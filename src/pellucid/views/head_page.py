"""Writes the results of `pellucid heads`: numbers as JSON, or a page of one sentence's heads with them."""

import json
from pathlib import Path

from pellucid.analysis.ablation import Ablation
from pellucid.analysis.heads import HeadStudy, trace_pair
from pellucid.analysis.statistics import HeadTable
from pellucid.errors import ConfigError
from pellucid.files.writing import check_writable, write_output
from pellucid.views.view import View
from pellucid.views.view_options import ViewOptions

SUFFIXES = (".json", ".html")


def check_output(path: str | None) -> None:
    """Raises ConfigError for an unsupported file type, DataError for an unwritable path, before any computation."""
    if path is None:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ConfigError(f"`{path}` must end in one of {', '.join(SUFFIXES)}", "the ending selects the format")
    check_writable(path)


def write_heads(path: str | None, subject: HeadStudy, found: HeadTable | Ablation) -> None:
    """Writes JSON, or a page with the model view of the first sentence and the ablation's changes overlaid on its
    heads.

    Writes nothing if no path is given.
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
    View(trace, "model", ViewOptions(title=title, ablation=ablation)).html(path)
