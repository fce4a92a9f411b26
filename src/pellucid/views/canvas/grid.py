"""Draws heat maps between labeled rows and columns: the size of cells, the positions of labels, and the scale bar."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Self

import numpy as np

from pellucid.views.canvas.colours import FAINT_INK, INK, RULE, map_diverging_colours, sequential
from pellucid.views.canvas.drawing import SMALL_SIZE, Drawing
from pellucid.views.canvas.shapes import Box, Label, Pixels, Raster
from pellucid.views.canvas.text import shorten, text_width

LARGEST_FONT, SMALLEST_FONT = 11.5, 6.5
GAP = 5.0
SINE = sqrt(0.5)  # labels that do not fit side by side are rotated by 45 degrees
PANEL_TITLE = 11.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """Holds a heat map's dimensions; lengths in pixels."""

    rows: list[str]
    columns: list[str]
    cell: float
    font: float
    column_font: float
    turned: bool
    """True if the columns' labels are too long for horizontal text."""
    left: float
    """The width of the rows' labels."""
    top: float
    """The height of the columns' labels."""

    @classmethod
    def fit(cls, rows: list[str], columns: list[str], room: float, largest: float = 26.0, height: float = 900) -> Self:
        """Returns the grid with the largest cells that fit into `room` x `height` pixels, labels included in `room`."""
        row_widths, column_widths = ([text_width(label) for label in side] for side in (rows, columns))
        left, cell, font = 0.0, largest, LARGEST_FONT
        for _ in range(4):  # the size of labels depends on the cells', which depends on the space for labels
            left = max(row_widths) * font + GAP
            cell = max(0.5, min(largest, (room - left) / len(columns), height / len(rows)))
            font = min(LARGEST_FONT, max(SMALLEST_FONT, 0.85 * cell))
        # Labels that are numbers may be skipped; words may not.
        turned = max(column_widths) * font > cell - 2 and not all(label.isdecimal() for label in columns)
        column_font = min(font, max(SMALLEST_FONT, cell * SINE)) if turned else font  # rotated lines are closer
        return cls(
            rows=rows, columns=columns, cell=cell, font=font, column_font=column_font, turned=turned, left=left,
            top=max(column_widths) * column_font * SINE + column_font if turned else 1.4 * font,
        )  # fmt: skip

    @property
    def width(self) -> float:
        """Returns the total width of the cells."""
        return len(self.columns) * self.cell

    @property
    def height(self) -> float:
        """Returns the total height of the cells."""
        return len(self.rows) * self.cell

    def draw(self, drawing: Drawing, x: float, y: float, pixels: Pixels) -> None:
        """Draws the cells (L, M, 3), or an image at a multiple of that size, with the upper left corner at (x, y)."""
        drawing.add(Raster(x, y, self.width, self.height, pixels))
        drawing.add(Box(x, y, self.width, self.height, stroke=RULE, stroke_width=0.75))

    def draw_row_labels(self, drawing: Drawing, x: float, y: float) -> None:
        """Draws the rows' labels to the left of x."""
        every = _round_up(1.05 * self.font / self.cell)
        for i in range(0, len(self.rows), every):
            middle = y + (i + 0.5) * self.cell + 0.35 * self.font
            drawing.add(Label(self.rows[i], x - GAP, middle, self.font, "end"))

    def draw_column_labels(self, drawing: Drawing, x: float, y: float) -> None:
        """Draws the columns' labels above y."""
        font = self.column_font
        every = _round_up((0.95 * font / SINE if self.turned else widest(self.columns) * font + 6) / self.cell)
        for j in range(0, len(self.columns), every):
            middle = x + (j + 0.5) * self.cell
            if self.turned:
                drawing.add(Label(self.columns[j], middle + 0.3 * font, y - 3, font, turn=-45))
            else:
                drawing.add(Label(self.columns[j], middle, y - GAP, font, "middle"))


def _round_up(number: float) -> int:
    """Rounds up to 1, 2 or 5 times a power of ten: the interval between labels that are drawn."""
    power = 1
    while 5 * power < number:
        power *= 10
    return next(factor * power for factor in (1, 2, 5) if factor * power >= number)


def scale_bar(
    drawing: Drawing, x: float, y: float, meaning: str, ends: tuple[str, str] = ("0", "1"), two_sided: bool = False
) -> float:
    """Draws the color scale, 12 pixels high; returns its right end."""
    ramp = map_diverging_colours(np.linspace(-1, 1, 65))[None] if two_sided else sequential(np.linspace(0, 1, 65))[None]
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
    """Draws a square of a color, or of a small image, and its meaning; returns the right end."""
    if isinstance(colour, str):
        drawing.add(Box(x, y, 11, 11, colour))
    else:
        drawing.add(Raster(x, y, 11, 11, colour), Box(x, y, 11, 11, stroke=RULE, stroke_width=0.75))
    drawing.add(Label(meaning, x + 16, y + 9, SMALL_SIZE, fill=FAINT_INK))
    return x + 16 + text_width(meaning) * SMALL_SIZE


def widest(texts: Sequence[str]) -> float:
    """Returns the width of the widest text, in units of its font size."""
    return max(map(text_width, texts), default=0.0)


@dataclass(frozen=True, slots=True)
class MapPanel:
    """Holds a heat map of (L, M) cells other than attention, with its title and the names of its axes."""

    title: str
    pixels: Pixels
    rows: Sequence[str]
    columns: Sequence[str]
    down: str = ""
    """The name of the rows."""
    across: str = ""
    """The name of the columns."""
    strong: bool = True
    """True if the title is emphasized."""


def draw_map(drawing: Drawing, panel: MapPanel, x: float, y: float, room: float, largest: float) -> tuple[float, float]:
    """Draws the panel at (x, y), at most `room` wide; returns its right and lower ends."""
    grid = Grid.fit(list(panel.rows), list(panel.columns), room - (16 if panel.down else 0), largest, height=420)
    left = x + (16 if panel.down else 0) + grid.left
    top = y + 20 + (14 if panel.across else 0) + grid.top
    drawing.add(Label(panel.title, x, y + 12, PANEL_TITLE, fill=INK, bold=panel.strong))
    if panel.across:
        drawing.add(Label(panel.across, left, y + 30, SMALL_SIZE, fill=FAINT_INK))
    if panel.down:
        middle = top + grid.height / 2
        drawing.add(Label(shorten(panel.down), x + 10, middle, SMALL_SIZE, "middle", FAINT_INK, turn=-90))
    grid.draw(drawing, left, top, panel.pixels)
    grid.draw_row_labels(drawing, left, top)
    grid.draw_column_labels(drawing, left, top)
    return left + grid.width, top + grid.height
