"""A translator's scores on a test set, and systems side by side on the same one."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid.data.corpus import read_lines
from pellucid.errors import ConfigError, DataError
from pellucid.evaluation.scores import Scores, score_corpus
from pellucid.tasks.saved import model_folder
from pellucid.tasks.translator import Translator
from pellucid.weights.folder import is_foreign, read_config


def evaluate(translator: Translator, sources: Sequence[str], references: Sequence[str], **options: Any) -> Scores:
    """Translates `sources` and scores them against `references`; `options` as Translator.translate takes them.

    Raises DataError where the lists differ in length or are empty.
    """
    outputs = [translation.text for translation in translator.translate(sources, **options)]
    return score_corpus(outputs, references)


def translate_test(
    systems: Sequence[str], src: str | None, ref: str, *, device: str, dtype: str | None, **options: Any
) -> tuple[list[list[str]], list[str]]:
    """What each system makes of a test set, and the references.

    Args:
        systems: run or model folders, which translate; or text files of finished translations, one a line.
        src: the source sentences; None where no system needs them.
        ref: their reference translations.
        options: as Translator.translate takes them, for the systems that are models.

    Raises ConfigError where a system is named twice, or a model has no sources; CheckpointError for a folder that is
    none; DataError where the files cannot be read, are empty or differ in length.
    """
    _check_systems(systems, src)
    paths = [ref, *([src] if src else []), *filter(_is_text, systems)]
    columns = read_columns(paths)
    sources = columns[src] if src else []
    outputs = [
        columns[system] if _is_text(system) else _translated(system, sources, device, dtype, options)
        for system in systems
    ]
    return outputs, columns[ref]


def read_columns(paths: Sequence[str]) -> dict[str, list[str]]:
    """The lines of files of which line n always belongs to the same sentence.

    Raises DataError where they are empty or differ in length, or more than one of them is standard input.
    """
    if paths.count("-") > 1:
        raise DataError("standard input (`-`) can be only one of the files", "name the others")
    columns = {path: list(read_lines(path)) for path in paths}
    first, *others = columns
    for other in others:
        if len(columns[first]) != len(columns[other]):
            raise DataError(
                f"`{first}` and `{other}` must have as many lines as each other, but `{first}` has "
                f"{len(columns[first]):,} and `{other}` {len(columns[other]):,}",
                "line n of each file must belong to the same sentence; an empty translation is an empty line",
            )
    if not columns[first]:
        names = " and ".join(f"`{path}`" for path in columns)
        raise DataError(f"{names} {'is' if len(columns) == 1 else 'are'} empty", "give a sentence a line")
    return columns


def _check_systems(systems: Sequence[str], src: str | None) -> None:
    places = [Path(system).resolve() for system in systems]
    for system, place in zip(systems, places, strict=True):
        if places.count(place) > 1:
            raise ConfigError(f"`{system}` is compared with itself", "name another one with --against")
        if not _is_text(system):
            if not is_foreign(folder := model_folder(system)):
                read_config(folder)  # before the first one translates for minutes
            if src is None:
                raise ConfigError(f"the model `{system}` needs sentences to translate", "name their file with --src")


def _is_text(system: str) -> bool:
    """Whether it is a file (or a pipe) of translations rather than a model."""
    return system == "-" or (Path(system).exists() and not Path(system).is_dir())


def _translated(system: str, sources: list[str], device: str, dtype: str | None, options: dict[str, Any]) -> list[str]:
    translator = Translator.load(system, device, dtype)
    if sys.stderr.isatty():
        print(f"translating {len(sources):,} sentences with {system}", file=sys.stderr)
    return [translation.text for translation in translator.translate(sources, **options)]
