"""The alignment view: target words against source words, the links read off their weights, and the right ones."""

from collections.abc import Collection, Sequence

import numpy as np

from pellucid.tracing.trace import Array
from pellucid.views.canvas.colours import GOLD, INK, PAPER, sequential
from pellucid.views.canvas.drawing import PAGE, Box, Dot, Drawing
from pellucid.views.canvas.grid import MARGIN, Grid, finish, heading, scale_bar, swatch
from pellucid.views.canvas.text import isolated
from pellucid.views.pictures.matrix import Heading

Link = tuple[int, int]
"""Column and row: the source word and the target word."""
DARK = 0.55
"""Weights from which a mark is white."""


def draw_alignment(
    weights: Array,
    rows: Sequence[str],
    columns: Sequence[str],
    head: Heading,
    links: Collection[Link],
    sure: Collection[Link] = (),
    possible: Collection[Link] = (),
    width: float | None = None,
) -> Drawing:
    """Weights (T, S) between words; a dot for each link, a frame of gold for each that people are sure of, a thin one
    for one that they hold possible. Links are (column, row)."""
    room = (width or PAGE) - 2 * MARGIN
    grid = Grid.fit(list(rows), list(columns), room, largest=28)
    drawing = Drawing(head.title, _description(rows, columns, links, sure, possible))
    x, y = MARGIN + grid.left, heading(drawing, head.title, head.note, width or PAGE) + grid.top
    grid.draw(drawing, x, y, sequential(weights))
    grid.draw_row_labels(drawing, x, y)
    grid.draw_column_labels(drawing, x, y)
    for column, row in sorted(set(possible) | set(sure)):
        stroke = max(1.0, grid.cell * (0.12 if (column, row) in sure else 0.05))
        inset = stroke / 2 + 0.5
        place = (x + column * grid.cell + inset, y + row * grid.cell + inset)
        drawing.add(Box(*place, grid.cell - 2 * inset, grid.cell - 2 * inset, stroke=GOLD, stroke_width=stroke))
    for column, row in sorted(links):
        centre = (x + (column + 0.5) * grid.cell, y + (row + 0.5) * grid.cell)
        drawing.add(Dot(*centre, 0.2 * grid.cell, PAPER if weights[row, column] > DARK else INK))
    bottom = y + grid.height + 16
    scale_bar(drawing, MARGIN, bottom, "attention weight")
    _legend(drawing, bottom + 18, bool(sure), bool(set(possible) - set(sure)))
    return finish(drawing, width)


def _legend(drawing: Drawing, y: float, has_sure: bool, has_possible: bool) -> None:
    drawing.add(Dot(MARGIN + 5.5, y + 5.5, 4, INK))
    reach = swatch(drawing, MARGIN, y, "none", "link")
    for there, stroke, meaning in ((has_sure, 2.5, "sure"), (has_possible, 1.0, "possible")):
        if there:
            drawing.add(Box(reach + 19, y + 1, 9, 9, stroke=GOLD, stroke_width=stroke))
            reach = swatch(drawing, reach + 18, y, "none", f"gold, {meaning}")


def _description(
    rows: Sequence[str],
    columns: Sequence[str],
    links: Collection[Link],
    sure: Collection[Link],
    possible: Collection[Link],
) -> str:
    pairs = (f"{isolated(columns[c])} – {isolated(rows[r])}" for c, r in sorted(links, key=lambda link: link[::-1]))
    gold = f" Gold: {len(sure)} sure links, {len(set(possible) - set(sure))} possible ones." if possible or sure else ""
    agreed = f" {len(set(links) & set(sure))} of the sure ones are found." if sure else ""
    return f"Rows are target words, columns source words. Links: {'; '.join(pairs) or 'none'}.{gold}{agreed}"


def joined_weights(weights: np.ndarray) -> Array:
    """Weights that a sum over pieces may have raised a hair above one, within 0..1."""
    clipped: Array = np.clip(weights, 0, 1).astype(np.float32)
    return clipped
