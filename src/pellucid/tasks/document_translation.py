"""Translates documents by a translator: the options, the labels of language, the output and its report."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Unpack

from pellucid.data.translation_memory import THREE_LETTERS
from pellucid.documents.document import DocumentReport, Translate, open_document
from pellucid.documents.kinds import NAMES, kind_by_name
from pellucid.documents.spans import Answer, TextSegment
from pellucid.errors import ConfigError, format_value
from pellucid.files.writing import check_writable, open_output_file
from pellucid.tasks.flag_report import write_report
from pellucid.tasks.marks import Mark, MarkedText, MarkTranslator, translate_marked
from pellucid.tasks.search_options import TranslateOptions

TOGETHER = 512
"""Segments that are translated in one call; after each call the progress is reported."""


def translate_document(
    translator: MarkTranslator,
    path: str | Path,
    out: str | Path,
    *,
    report: str | Path | None = None,
    progress: Callable[[int, int], object] | None = None,
    label: str | None = None,
    in_place: bool = False,
    **options: Unpack[TranslateOptions],
) -> DocumentReport:
    """Translates a document, as `Translator.translate_document` describes."""
    source, target = Path(path), check_output(path, out, in_place)
    document = open_document(source)
    code = options.get("target_language") or label
    _check_target(translator, code)
    if not translator.languages and code is not None:
        options["target_language"] = None  # a model of two languages has no codes: the label alone needs it
    if not translator.languages and options.get("source_language") is not None:
        options["source_language"] = None

    translate = make_translate(translator, progress, **options)
    data, outcome = document.translate(translate, find_label(translator, code))
    with open_output_file(target) as file:
        file.write(data)
    if report is not None:
        write_report(report, make_totals(str(path), outcome), outcome.flagged)
    return outcome


def _check_target(translator: MarkTranslator, code: str | None) -> None:
    """Raises ConfigError for a label of another language than that of a model of two languages."""
    target, label = find_label(translator, None), find_label(translator, code)
    if not translator.languages and target and target.partition("-")[0] != label.partition("-")[0]:
        raise ConfigError(
            f"the model translates into `{target}`, and `target_language={format_value(code)}`",
            "leave `target_language=` out, or name a region of the language",
        )


def make_translate(
    translator: MarkTranslator,
    progress: Callable[[int, int], object] | None = None,
    **options: Unpack[TranslateOptions],
) -> Translate:
    """Returns the function that translates the segments of a document; `progress` is called with their numbers."""

    def translate(segments: Sequence[TextSegment]) -> list[Answer]:
        found: list[Answer] = []
        for start in range(0, len(segments), TOGETHER):
            texts = [
                MarkedText(each.text, tuple(Mark(*mark) for mark in each.marks))
                for each in segments[start : start + TOGETHER]
            ]
            for each in translate_marked(translator, texts, **options):
                found.append(Answer(each.text, tuple((mark.start, mark.end) for mark in each.marks), each.flags))
            if progress is not None:
                progress(len(found), len(segments))
        return found

    return translate


def check_output(path: str | Path, out: str | Path, in_place: bool = False) -> Path:
    """Returns the path of the translated document. Raises ConfigError if it is of another kind than the document.

    Without `in_place` it must not be the document.
    """
    kind, written = kind_by_name(path), kind_by_name(out)
    if written != kind and kind:
        named = f"that of {NAMES[written]}" if written else "that of no document"
        raise ConfigError(
            f"`{format_value(Path(path))}` is {NAMES[kind]}, and the name of the output, `{format_value(Path(out))}`, "
            f"is {named}",
            f"name an output that ends in {Path(path).suffix}: a document is translated into one of its kind",
        )
    target = check_writable(out)
    if not in_place and target.exists() and Path(path).exists() and os.path.samefile(path, target):
        raise ConfigError(
            f"the input is the output: `{format_value(Path(out))}`",
            "name another file, or replace the document by `in_place=True`",
        )
    return target


def find_label(translator: MarkTranslator, code: str | None) -> str:
    """Returns the code of the target language for the labels of a document; empty if it is unknown.

    It is the given code, or the target of the model's only pair of languages; codes of multilingual models, such as
    `eng_Latn` and `en_XX`, become those of the web.
    """
    if code is None:
        targets = {pair.partition("-")[2] for pair in translator.pairs}
        code = targets.pop() if len(targets) == 1 else ""
    language, _, rest = code.partition("_")
    if len(rest) == 4 or rest == "XX" or not rest:
        return THREE_LETTERS.get(language, language)
    return f"{language}-{rest}"


def make_report(name: str, outcome: DocumentReport) -> dict[str, object]:
    """Returns the report of a document as JSON values: its totals, then the flagged units with their places."""
    return make_totals(name, outcome) | {"flagged": [asdict(unit) for unit in outcome.flagged]}


def make_totals(name: str, outcome: DocumentReport) -> dict[str, object]:
    """Returns the totals of a document as JSON values."""
    return {
        "document": name, "units": len(outcome.units), "translated": outcome.translated, "left": outcome.left,
        "language": outcome.target, "notes": list(outcome.notes),
    }  # fmt: skip
