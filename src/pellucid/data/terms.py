"""Glossary files: a source term, a tab and its translation per line."""

from pathlib import Path

from pellucid.data.lines import format_display_name, read_lines
from pellucid.errors import DataError, format_value
from pellucid.text.glossary import has_words


def read_terms(path: str | Path) -> list[tuple[str, str]]:
    """Reads the term pairs of a glossary file, plain or gzip; empty lines are skipped.

    Raises DataError for a line that is not a pair, a file without pairs, and the errors of `read_lines`.
    """
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        sides = [side.strip() for side in line.split("\t")]
        if len(sides) != 2 or not all(sides):
            count = "1 field" if len(sides) == 1 else f"{len(sides)} fields"
            raise DataError(
                f"{format_display_name(path)}, line {number:,}: {format_value(line)} has {count}"
                f"{'' if all(sides) else ', one of them empty'}",
                "write a source term, a tab and its translation",
            )
        if hidden := next((side for side in sides if not has_words(side)), None):
            raise DataError(
                f"{format_display_name(path)}, line {number:,}: {format_value(hidden)} has no visible character",
                "write a word",
            )
        pairs.append((sides[0], sides[1]))
    if not pairs:
        raise DataError(
            f"{format_display_name(path)} holds no terms", "write a source term, a tab and its translation in each line"
        )
    return pairs
