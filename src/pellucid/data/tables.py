"""Tables of tab-separated values: the beginning of the file determines which rows are pairs.

Tabs separate the cells; quotes have no special meaning. A line of headings, and rows with another number of cells than
nearly all others, are not pairs. Cells quoted by a spreadsheet are read unchanged, and reported.
"""

import re
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.data.issues import IssueCallback
from pellucid.data.lines import decompress
from pellucid.data.translation_memory import THREE_LETTERS
from pellucid.errors import MOST_LISTED, DataError, format_value

HEAD = 1 << 20
"""Bytes at the beginning of a file that are inspected."""
MOST_ROWS = 1000
NEARLY_ALL = 0.75
"""Fraction of rows with the same number of cells from which on the other rows are dropped."""
LONG = 8
"""Median characters per cell at least for a table whose first line may be language codes."""

_HEADINGS = """
    source src target tgt source_text target_text sentence sentence1 sentence2 text label labels class category
    translation original english german french spanish italian portuguese dutch polish czech russian ukrainian
    turkish greek arabic hebrew chinese japanese korean hindi vietnamese thai indonesian swedish danish norwegian
    finnish hungarian romanian bulgarian deutsch englisch français anglais español inglés italiano português
    nederlands polski čeština русский українська türkçe 中文 日本語 한국어 영어 독일어 중국어 일본어 원문 번역 문장
"""
HEADINGS = frozenset(_HEADINGS.split())
"""Usual column headings of a table of texts."""
CODES = frozenset((*THREE_LETTERS, *THREE_LETTERS.values()))
NO_PAIR = "", ""
"""An empty pair in place of a row that is not a pair, so that pairs are numbered by the lines of the file."""


@dataclass(frozen=True)
class TextTable:
    """The usual form of a table."""

    path: str
    columns: Sequence[int]
    """The cells that are read, counted from 1."""
    usual: int = 0
    """The number of cells that most rows have; 0: unknown."""
    is_regular: bool = False
    """True if nearly all rows have this number of cells."""
    is_quoted: bool = False
    has_headings: bool = False

    @classmethod
    def from_file(cls, path: str, columns: Sequence[int]) -> "TextTable":
        """Inspects the beginning of a file. A pipe is not inspected, since it can be read only once."""
        rows = [line.split("\t") for line in _first_lines(Path(path))]
        if not rows:
            return cls(path, columns)
        usual, count = Counter(map(len, rows)).most_common(1)[0]
        cells = [[row[column - 1] for column in columns] for row in rows if len(row) >= max(columns)]
        quoted = sum(all(map(_is_quoted, row)) for row in cells)
        return cls(
            path,
            columns,
            usual,
            is_regular=count >= NEARLY_ALL * len(rows),
            is_quoted=bool(cells) and quoted >= NEARLY_ALL * len(cells),
            has_headings=len(rows[0]) >= max(columns) and len(rows) > 1 and _are_headings(cells),
        )

    def sides(self, line: str, number: int, note: IssueCallback) -> Sequence[str]:
        """Returns the selected cells of a row; NO_PAIR for a row that is not a pair, which is reported to `note`.

        Raises DataError for a row with too few cells.
        """
        cells = line.split("\t")
        if number == 1:
            others = [place for place in range(1, self.usual + 1) if place not in self.columns]
            for each in others:
                what = f"the columns {', '.join(map(str, others[:MOST_LISTED]))}" if each == others[0] else ""
                note("others", self.path, 0, what, "parts")
        if number == 1 and self.has_headings:
            note("heading", self.path, number, f"`{format_value(line)}`", "rows")
            return NO_PAIR
        if len(cells) < max(self.columns):
            raise too_few(cells, f"line {number:,} of `{self.path}`", self.columns)
        if self.usual and len(cells) != self.usual:
            most, effect = ("nearly all", "left out") if self.is_regular else ("most", "kept")
            note("columns", self.path, number, f"{len(cells):,}, where {most} rows have {self.usual}: {effect}", "rows")
            if self.is_regular:
                return NO_PAIR
        found = [cells[column - 1] for column in self.columns]
        quoted = [cell for cell in found if _is_quoted(cell)]
        if quoted and (self.is_quoted or any('""' in cell[1:-1] for cell in quoted)):
            note("quoted", self.path, number, f"`{format_value(quoted[0])}`", "rows")
        return found


def too_few(cells: Sequence[str], place: str, columns: Sequence[int]) -> DataError:
    """Returns the error for a row with too few cells at `place`, "line 5 of `x.tsv`"."""
    return DataError(
        f"{place} has {len(cells)} column{'s' * (len(cells) > 1)}, but source and target are columns "
        f"{columns[0]} and {columns[-1]}",
        "columns are separated by tabs; select source and target with `data.tsv_columns`",
    )


def _first_lines(path: Path) -> list[str]:
    """Returns the first lines with text of a regular file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return []
        with path.open("rb") as file, decompress(file, path, lambda: "in its beginning") as plain:
            head: bytes = plain.read(HEAD)
    except (OSError, DataError):  # reported when the file is read
        return []
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    whole = lines[:-1] if len(head) == HEAD else lines
    texts = (line.removesuffix(b"\r").decode(errors="replace") for line in whole)
    return [text for text in texts if text.strip()][:MOST_ROWS]


def _is_quoted(cell: str) -> bool:
    """Returns True if a cell is in quotation marks, with inner ones doubled."""
    return len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in cell[1:-1].replace('""', "")


def _are_headings(rows: Sequence[Sequence[str]]) -> bool:
    """Returns True if the first row is a heading: column names, or language codes."""
    first = [cell.strip().strip('"').casefold() for cell in rows[0]]
    if len(set(first)) < len(first):
        return False
    if all(word in HEADINGS for word in first):
        return True
    lengths = sorted(len(cell) for row in rows[1:] for cell in row)
    is_long = bool(lengths) and lengths[len(lengths) // 2] >= LONG
    return is_long and all(re.split("[-_]", word)[0] in CODES or word in HEADINGS for word in first)
