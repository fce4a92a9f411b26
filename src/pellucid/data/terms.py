"""Glossary files: a source term, a tab and its translation per line; or CSV, or TBX, by the ending of the name."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from pellucid.data.lines import format_display_name, read_lines
from pellucid.data.tables import CODES
from pellucid.data.translation_memory import read_term_base
from pellucid.errors import DataError, format_value
from pellucid.text.glossary import has_words

DELIMITERS = (",", ";", "\t")
"""The delimiters of CSV, as spreadsheets write it."""
HEADINGS = frozenset(
    (
        "source",
        "target",
        "src",
        "tgt",
        "term",
        "translation",
        "source_term",
        "target_term",
        "source_text",
        "target_text",
    )
)
"""Words that head the two columns of a CSV glossary, apart from language codes."""


def read_terms(path: str | Path, languages: tuple[str | None, str | None] = (None, None)) -> list[tuple[str, str]]:
    """Reads the term pairs of a glossary file, plain or gzip; empty lines are skipped.

    A source term may stand in several lines, or entries of a TBX file, with one translation each.

    Args:
        path: a file of lines with a tab; with the ending .csv, of rows whose first two columns are the terms, with or
            without a heading; with the ending .tbx, a term base.
        languages: the codes of the source and the target language, for a term base.

    Raises DataError for a line that is not a pair, a file without pairs, and the errors of `read_lines` and
    `read_term_base`.
    """
    name = str(path).lower().removesuffix(".gz")
    rows: Iterator[tuple[str, Sequence[str]]]
    if name.endswith(".tbx"):
        terms = read_term_base(str(path), (languages[0] or "", languages[1] or ""))
        rows = ((f"{format_display_name(path)}, term {number:,}", pair) for number, pair in enumerate(terms, start=1))
    elif name.endswith(".csv"):
        rows = _read_csv(path)
    else:
        rows = (
            (f"{format_display_name(path)}, line {number:,}", line.split("\t"))
            for number, line in enumerate(read_lines(path), start=1)
            if line.strip()
        )
    pairs = [_check_row(place, cells) for place, cells in rows]
    if not pairs:
        raise DataError(
            f"{format_display_name(path)} holds no terms", "write a source term, a tab and its translation in each line"
        )
    return pairs


def _check_row(place: str, cells: Sequence[str]) -> tuple[str, str]:
    sides = [side.strip() for side in cells]
    if len(sides) != 2 or not all(sides):
        count = "1 field" if len(sides) == 1 else f"{len(sides)} fields"
        raise DataError(
            f"{place}: {format_value(chr(9).join(cells))} has {count}{'' if all(sides) else ', one of them empty'}",
            "write a source term, a tab (in .csv a comma) and its translation",
        )
    if hidden := next((side for side in sides if not has_words(side)), None):
        raise DataError(f"{place}: {format_value(hidden)} has no visible character", "write a word")
    return sides[0], sides[1]


def _read_csv(path: str | Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the place and the first two cells of each row after the heading; further columns are not read."""
    lines = list(read_lines(path))
    tables = []
    for delimiter in DELIMITERS:
        reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
        try:
            tables.append([(reader.line_num, row) for row in reader if any(map(str.strip, row))])
        except csv.Error as error:
            if delimiter == DELIMITERS[-1] and not tables:
                raise DataError(
                    f"{format_display_name(path)} is damaged CSV: {error}", "save it again as CSV, with quotes closed"
                ) from error
    usual = [table for table in tables if table and len({len(row) for _, row in table}) == 1 < len(table[0][1])]
    table = (usual or tables)[0]
    if table and len(table[0][1]) > 1 and _are_headings(table[0][1][:2]):
        table = table[1:]
    yield from ((f"{format_display_name(path)}, line {number:,}", row[:2]) for number, row in table)


def _are_headings(cells: Sequence[str]) -> bool:
    words = [cell.strip().casefold() for cell in cells]
    return words[0] != words[1] and (
        all(word in HEADINGS for word in words) or all(word.replace("_", "-").split("-")[0] in CODES for word in words)
    )
