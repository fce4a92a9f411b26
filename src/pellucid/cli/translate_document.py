"""The translation of a document, as `pellucid translate MODEL DOCUMENT -o OUT` does it."""

import json
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.errors import ConfigError, DataError, escape_message, format_value
from pellucid.terminal import log_line


def is_document_name(text: str | None, output: str) -> bool:
    """Returns True if a text is the name of a document to translate.

    Raises ConfigError for a document without an output and a folder with one, and DataError for a document that does
    not exist. A plain text without an output is a file of lines.
    """
    if text is None or "\n" in text:
        return False
    if output != "-" and os.path.isdir(text):
        raise ConfigError(
            f"`{format_value(Path(text))}` is a folder",
            f"translate its files by `input_dir={format_value(Path(text))}` and "
            f"`output_dir={format_value(Path(output))}`",
        )
    from pellucid.documents.kinds import is_document  # it imports the readers

    if not is_document(text):
        return False
    path = Path(text)
    if not os.path.isfile(text):  # no error for a long text, unlike Path.is_file
        if output == "-" or any(map(str.isspace, text)):
            return False
        raise DataError(
            f"no file `{format_value(path)}`", "check the path; a relative path starts at the current directory"
        )
    if output == "-" and path.suffix.lower() not in (".txt", ".text"):
        raise ConfigError(f"`{format_value(path)}` is a document, and no output is named", _name_output(path))
    return output != "-"


def check_lines(path: str) -> None:
    """Raises ConfigError if an input of lines is a document."""
    from pellucid.documents.kinds import is_document

    if is_document(path) and Path(path).suffix.lower() not in (".txt", ".text") and os.path.isfile(path):
        raise ConfigError(
            f"`{format_value(Path(path))}` is a document, and `input=` reads lines",
            f"give the document without `input=`, and {_name_output(Path(path))}; to read its lines unchanged, pipe "
            "them: `cat FILE | ...`",
        )


def _name_output(path: Path) -> str:
    return f"name the translated document, as in `output={format_value(path.with_suffix('.out' + path.suffix))}`"


def translate_document_file(
    translating: Any,
    path: str,
    output: str | None,
    report: str | None,
    languages: Mapping[str, str | None],
    others: Mapping[str, Any],
) -> int:
    """Translates a document; prints its units as JSON lines if `translating.as_json` is true.

    Args:
        translating: the request: model and options of the search.
        output: the translated document; None: the document is replaced.
        report: the file for the report; None: none.
        languages: the source and the target language.
        others: options of lines by their names, which a document does not take.

    Raises ConfigError for such an option, and the errors of `Translator.translate_document`.
    """
    from pellucid.documents.document import UNKNOWN
    from pellucid.streams.progress import LineProgress
    from pellucid.tasks.document_translation import check_output
    from pellucid.tasks.segmenter import LongTextWarning
    from pellucid.tasks.translator import Translator

    for name, value in others.items():
        if value:
            raise ConfigError(f"`{name}=` is for lines, and `{format_value(Path(path))}` is a document", "leave it out")
    out, in_place = (path, True) if output is None else (output, False)
    check_output(path, out, in_place)
    loading = {key: value for key, value in translating.loading.items() if not key.endswith("_language")}
    with warnings.catch_warnings(), LineProgress(shown=True) as progress:
        warnings.simplefilter("ignore", LongTextWarning)
        translator = Translator.load(translating.model, **loading)
        progress.begin(0, 0.0)
        outcome = translator.translate_document(
            path, out, report=report, progress=lambda done, all: progress.update(done, done / all), in_place=in_place,
            **{**translating.options.non_defaults, **languages},
        )  # fmt: skip
    if translating.as_json:
        for unit in outcome.units:
            table = {"place": unit.place, "source": unit.source, "text": unit.text, "state": unit.state}
            sys.stdout.write(json.dumps(table | {"flags": list(unit.flags)}, ensure_ascii=False) + "\n")
    for note in outcome.notes:
        log_line(f"note: {note}")
    if outcome.target == UNKNOWN:
        log_line("note: the model names no target language: the label of the document is `und`; `--tgt-lang` sets it")
    count, flagged = len(outcome.units), len(outcome.flagged)
    if not outcome.translated:
        log_line(f"warning: no unit of {escape_message(format_value(Path(path)))} was translated")
    log_line(
        f"{escape_message(format_value(Path(path)))}: {count:,} unit{'s' if count != 1 else ''}, "
        f"{outcome.translated:,} translated, {outcome.left:,} left, {flagged:,} flagged"
    )
    return 0
