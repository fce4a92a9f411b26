"""Files of terms: a source term, a tab and its translation in each line."""

from pathlib import Path

from pellucid.data.lines import origin, read_lines
from pellucid.errors import DataError, shown
from pellucid.text.glossary import has_words


def read_terms(path: str | Path) -> list[tuple[str, str]]:
    """Reads the pairs of a file of terms, plain or gzip; empty lines are passed over.

    Raises DataError for a line that is no pair, a file without any, and what `read_lines` says of files.
    """
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        sides = [side.strip() for side in line.split("\t")]
        if len(sides) != 2 or not all(sides):
            count = "1 field" if len(sides) == 1 else f"{len(sides)} fields"
            raise DataError(
                f"{origin(path)}, line {number:,}: {shown(line)} has {count}"
                f"{'' if all(sides) else ', one of them empty'}",
                "write a source term, a tab and its translation",
            )
        if hidden := next((side for side in sides if not has_words(side)), None):
            raise DataError(
                f"{origin(path)}, line {number:,}: {shown(hidden)} has nothing that can be read", "write a word"
            )
        pairs.append((sides[0], sides[1]))
    if not pairs:
        raise DataError(f"{origin(path)} holds no terms", "write a source term, a tab and its translation in each line")
    return pairs
