"""A table of runs or settings for a terminal, a spreadsheet, a paper or a program."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pellucid.errors import legible

Format = Literal["table", "csv", "latex", "json"]
NOTHING = "-"
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column: its name as a program reads it, and how a person is shown its values."""

    key: str
    title: str
    decimals: int | None = None
    """Digits behind the point of a number; None: words, or whole numbers."""

    def shown(self, value: Any) -> str:
        """Returns a value for a reader; None is a dash."""
        if value is None:
            return NOTHING
        if isinstance(value, str):
            return legible(value).replace("\n", " ")
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.decimals is not None:
            return f"{value:,.{self.decimals}f}"
        return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Table:
    """Rows by the keys of their columns; what a row lacks is None. Columns without any value are left out."""

    columns: Sequence[Column]
    rows: list[dict[str, Any]]

    def written(self, form: Format) -> str:
        """Returns the table, with its last line end. CSV and JSON have numbers in full and columns by their keys."""
        if form == "json":
            return json.dumps(list(self.rows), indent=2, ensure_ascii=False) + "\n"
        columns = [c for c in self.columns if any(row.get(c.key) is not None for row in self.rows)]
        if form == "csv":
            file = io.StringIO()
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([column.key for column in columns])
            writer.writerows([[row.get(column.key) for column in columns] for row in self.rows])
            return file.getvalue()
        titles = [column.title for column in columns]
        cells = [[column.shown(row.get(column.key)) for column in columns] for row in self.rows]
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


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join("".join(_LATEX.get(c, c) for c in cell) for cell in cells) + r" \\"
