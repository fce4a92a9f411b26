"""A heat map between labelled rows and columns: how large its cells are, where its labels stand, and its scale bar."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Self

import numpy as np

from pellucid.views.canvas.colours import FAINT_INK, INK, RULE, diverging, sequential
from pellucid.views.canvas.drawing import Box, Drawing, Label, Pixels, Raster, moved
from pellucid.views.canvas.extent import bounds
from pellucid.views.canvas.text import text_width

MARGIN, TITLE_SIZE, SMALL_SIZE = 12.0, 13.0, 10.0
LARGEST_FONT, SMALLEST_FONT = 11.5, 6.5
GAP = 5.0
SINE = sqrt(0.5)  # labels that do not fit side by side are turned by half a right angle


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """A heat map's measures; lengths in pixels."""

    rows: list[str]
    columns: list[str]
    cell: float
    font: float
    column_font: float
    turned: bool
    """Whether the columns' labels are too long to stand upright."""
    left: float
    """The room of the rows' labels."""
    top: float
    """The room of the columns' labels."""

    @classmethod
    def fit(cls, rows: list[str], columns: list[str], room: float, largest: float = 26.0, height: float = 900) -> Self:
        """The grid with the largest cells that `room` pixels across, labels included, and `height` down allow."""
        row_widths, column_widths = ([text_width(label) for label in side] for side in (rows, columns))
        left, cell, font = 0.0, largest, LARGEST_FONT
        for _ in range(4):  # the labels' size follows from the cells', whose size follows from the labels' room
            left = max(row_widths) * font + GAP
            cell = max(0.5, min(largest, (room - left) / len(columns), height / len(rows)))
            font = min(LARGEST_FONT, max(SMALLEST_FONT, 0.85 * cell))
        # Numbers need not all stand there; words do.
        turned = max(column_widths) * font > cell - 2 and not all(label.isdecimal() for label in columns)
        column_font = min(font, max(SMALLEST_FONT, cell * SINE)) if turned else font  # turned lines lie closer
        return cls(
            rows=rows, columns=columns, cell=cell, font=font, column_font=column_font, turned=turned, left=left,
            top=max(column_widths) * column_font * SINE + column_font if turned else 1.4 * font,
        )  # fmt: skip

    @property
    def width(self) -> float:
        """Of the cells."""
        return len(self.columns) * self.cell

    @property
    def height(self) -> float:
        """Of the cells."""
        return len(self.rows) * self.cell

    def draw(self, drawing: Drawing, x: float, y: float, pixels: Pixels) -> None:
        """The cells (L, M, 3), or as many times more pixels, with their upper left corner at (x, y)."""
        drawing.add(Raster(x, y, self.width, self.height, pixels))
        drawing.add(Box(x, y, self.width, self.height, stroke=RULE, stroke_width=0.75))

    def draw_row_labels(self, drawing: Drawing, x: float, y: float) -> None:
        """The rows' labels, to the left of x."""
        every = _round_up(1.05 * self.font / self.cell)
        for i in range(0, len(self.rows), every):
            middle = y + (i + 0.5) * self.cell + 0.35 * self.font
            drawing.add(Label(self.rows[i], x - GAP, middle, self.font, "end"))

    def draw_column_labels(self, drawing: Drawing, x: float, y: float) -> None:
        """The columns' labels, above y."""
        font = self.column_font
        every = _round_up((0.95 * font / SINE if self.turned else widest(self.columns) * font + 6) / self.cell)
        for j in range(0, len(self.columns), every):
            middle = x + (j + 0.5) * self.cell
            if self.turned:
                drawing.add(Label(self.columns[j], middle + 0.3 * font, y - 3, font, turn=-45))
            else:
                drawing.add(Label(self.columns[j], middle, y - GAP, font, "middle"))


def _round_up(number: float) -> int:
    """To 1, 2 or 5 times a power of ten: the step from one label to the next that is drawn."""
    power = 1
    while 5 * power < number:
        power *= 10
    return next(factor * power for factor in (1, 2, 5) if factor * power >= number)


def heading(drawing: Drawing, title: str, note: str, width: float) -> float:
    """Title and note at the top of a drawing, broken into lines; returns where they end."""
    y = MARGIN
    for text, size, fill, bold in ((title, TITLE_SIZE, INK, True), (note, SMALL_SIZE, FAINT_INK, False)):
        for line in wrapped(text, (width - 2 * MARGIN) / size):
            y += size * 1.3
            drawing.add(Label(line, MARGIN, y - 0.3 * size, size, fill=fill, bold=bold))
    return y + 4


def wrapped(text: str, width: float) -> list[str]:
    """The text in lines of at most `width` font sizes, broken at spaces."""
    lines: list[str] = []
    for word in text.split(" ") if text else []:
        if lines and text_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def scale_bar(
    drawing: Drawing, x: float, y: float, meaning: str, ends: tuple[str, str] = ("0", "1"), two_sided: bool = False
) -> float:
    """Which colour is which number; returns how far right it reaches. It is 12 pixels high."""
    ramp = diverging(np.linspace(-1, 1, 65))[None] if two_sided else sequential(np.linspace(0, 1, 65))[None]
    start = x + text_width(ends[0]) * SMALL_SIZE + 4
    drawing.add(
        Label(ends[0], x, y + 9, SMALL_SIZE, fill=FAINT_INK),
        Raster(start, y, 90, 11, ramp),
        Box(start, y, 90, 11, stroke=RULE, stroke_width=0.75),
        Label(ends[1], start + 94, y + 9, SMALL_SIZE, fill=FAINT_INK),
    )
    place = start + 94 + text_width(ends[1]) * SMALL_SIZE + 8
    drawing.add(Label(meaning, place, y + 9, SMALL_SIZE, fill=FAINT_INK))
    return place + text_width(meaning) * SMALL_SIZE


def swatch(drawing: Drawing, x: float, y: float, colour: str | Pixels, meaning: str) -> float:
    """A square of a colour, or of a small image, and what it stands for; returns how far right it reaches."""
    if isinstance(colour, str):
        drawing.add(Box(x, y, 11, 11, colour))
    else:
        drawing.add(Raster(x, y, 11, 11, colour), Box(x, y, 11, 11, stroke=RULE, stroke_width=0.75))
    drawing.add(Label(meaning, x + 16, y + 9, SMALL_SIZE, fill=FAINT_INK))
    return x + 16 + text_width(meaning) * SMALL_SIZE


def finish(drawing: Drawing, widest_shown: float | None) -> Drawing:
    """The drawing with its size, a margin around all shapes; shown smaller where it is wider than it may appear."""
    left, top, right, bottom = bounds(drawing.shapes)
    shift = max(0.0, MARGIN / 2 - left)
    drawing.shapes = [moved(shape, shift, max(0.0, MARGIN / 2 - top)) for shape in drawing.shapes]
    drawing.width, drawing.height = ceil(right + shift + MARGIN), ceil(bottom + MARGIN)
    drawing.shown_width = widest_shown if widest_shown and widest_shown < drawing.width else None
    return drawing


def widest(texts: Sequence[str]) -> float:
    """The width of the widest text, in units of its font size."""
    return max(map(text_width, texts), default=0.0)
