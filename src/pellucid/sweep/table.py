"""Formats a table of runs or settings for a terminal, a spreadsheet, a paper or a program."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pellucid.errors import MOST_SHOWN_OF_A_PATH, escape_message, format_value

Format = Literal["table", "csv", "latex", "json"]
NOTHING = "-"
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column: its key in CSV and JSON, and its title and format for a reader."""

    key: str
    title: str
    decimals: int | None = None
    """The decimals of a number; None: words, or whole numbers."""

    def format(self, value: Any) -> str:
        """Returns a value for a reader; None is a dash."""
        if value is None:
            return NOTHING
        if isinstance(value, str):
            text = escape_message(value).replace("\n", " ")
            return text if len(text) <= MOST_SHOWN_OF_A_PATH else format_value(text)
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.decimals is not None:
            return f"{value:,.{self.decimals}f}"
        return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class ReportTable:
    """Rows by the keys of their columns; a missing value is None. Columns without any value are left out."""

    columns: Sequence[Column]
    rows: list[dict[str, Any]]

    def write(self, form: Format) -> str:
        """Returns the table, ending in a newline. CSV and JSON have full-precision numbers and keys of columns."""
        if form == "json":
            text = json.dumps(list(self.rows), indent=2, ensure_ascii=False)
            return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text) + "\n"
        columns = [c for c in self.columns if any(row.get(c.key) is not None for row in self.rows)]
        if form == "csv":
            file = io.StringIO()
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([escape_message(column.key) for column in columns])
            writer.writerows([[_legible(row.get(column.key)) for column in columns] for row in self.rows])
            return file.getvalue()
        titles = [escape_message(column.title) for column in columns]
        cells = [[column.format(row.get(column.key)) for column in columns] for row in self.rows]
        right = [all(not isinstance(row.get(c.key), str) for row in self.rows) for c in columns]
        if form == "latex":
            lines = [
                rf"\begin{{tabular}}{{{''.join('r' if is_right else 'l' for is_right in right)}}}", r"\toprule",
                _latex_row(titles), r"\midrule", *map(_latex_row, cells), r"\bottomrule", r"\end{tabular}",
            ]  # fmt: skip
            return "\n".join(lines) + "\n"
        widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
        return "".join(
            "  ".join(
                cell.rjust(width) if is_right else cell.ljust(width)
                for cell, width, is_right in zip(line, widths, right, strict=True)
            ).rstrip()
            + "\n"
            for line in [titles, *cells]
        )


def _legible(value: Any) -> Any:
    """Returns a cell of CSV that is safe to print on a terminal."""
    return escape_message(value) if isinstance(value, str) else value


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join("".join(_LATEX.get(c, c) for c in cell) for cell in cells) + r" \\"
