"""The compare view: two attentions, their difference, and how far each of their heads are apart."""

from collections.abc import Sequence

import numpy as np

from pellucid.tracing.trace import Array, Token
from pellucid.views.canvas.colours import FAINT_INK, GOLD, diverging, hatched, sequential
from pellucid.views.canvas.drawing import PAGE, Box, Drawing, Label
from pellucid.views.canvas.grid import MARGIN, SMALL_SIZE, Grid, finish, heading, scale_bar, widest
from pellucid.views.canvas.panels import MapPanel, draw_map
from pellucid.views.canvas.text import isolated, labels, shorten
from pellucid.views.pictures.matrix import Heading, Mask

PANEL_GAP = 14.0


def draw_compare(
    a: Array,
    b: Array,
    rows: Sequence[Token],
    columns: Sequence[Token],
    head: Heading,
    names: tuple[str, str],
    distances: Array,
    marked: tuple[int, int] | None,
    mask: Mask | None = None,
    width: float | None = None,
) -> Drawing:
    """A and B (L, M) side by side, A less B in two colours, and the distances of all heads (N, H) below.

    `marked`: the (layer, head) that is shown above.
    """
    page = width or PAGE
    row_labels, column_labels = labels(rows), labels(columns)
    label_room = min(0.3 * page, widest(row_labels) * 8 + 5)
    share = (page - 2 * MARGIN - label_room - 2 * PANEL_GAP) / 3 + label_room
    grid = Grid.fit(row_labels, column_labels, share, largest=22)
    drawing = Drawing(head.title, _description(a, b, row_labels, column_labels, names, distances))
    x, y = MARGIN + grid.left, heading(drawing, head.title, head.note, page) + grid.top
    most = max(float(np.abs(a - b).max()), 1e-6)
    panels = (f"A: {names[0]}", sequential(a)), (f"B: {names[1]}", sequential(b)), ("A − B", diverging((a - b) / most))
    for number, (name, pixels) in enumerate(panels):
        left = x + number * (grid.width + PANEL_GAP)
        grid.draw(drawing, left, y, hatched(pixels, mask))
        grid.draw_column_labels(drawing, left, y)
        text = shorten(name, max(8.0, grid.width / SMALL_SIZE))
        drawing.add(Label(text, left + grid.width / 2, y + grid.height + 14, SMALL_SIZE, "middle", FAINT_INK))
    grid.draw_row_labels(drawing, x, y)
    y += grid.height + 26
    reach = scale_bar(drawing, MARGIN, y, "weight") + 22
    scale_bar(drawing, reach, y, "A − B", (f"−{most:.2g}", f"{most:.2g}"), two_sided=True)
    _distances(drawing, distances, marked, y + 26, page)
    return finish(drawing, width)


def _distances(drawing: Drawing, distances: Array, marked: tuple[int, int] | None, y: float, page: float) -> None:
    """The heads' distances as a heat map."""
    layers, heads = ([str(n) for n in range(count)] for count in distances.shape)
    title = "Jensen-Shannon distance of each head, mean over its rows"
    panel = MapPanel(title, sequential(distances), layers, heads, "layer", "head")
    right, bottom = draw_map(drawing, panel, MARGIN, y, page - 2 * MARGIN, largest=18)
    if marked:
        cell = Grid.fit(layers, heads, page - 2 * MARGIN - 16, 18, height=420).cell
        place = (right - (len(heads) - marked[1]) * cell, bottom - (len(layers) - marked[0]) * cell)
        drawing.add(Box(*place, cell, cell, stroke=GOLD, stroke_width=2))
    scale_bar(drawing, MARGIN, bottom + 10, "distance: 0 equal, 1 nothing in common")


def _description(
    a: Array, b: Array, rows: list[str], columns: list[str], names: tuple[str, str], distances: Array
) -> str:
    row, column = np.unravel_index(int(np.abs(a - b).argmax()), a.shape)
    layer, head = np.unravel_index(int(distances.argmax()), distances.shape)
    return (
        f"A is {names[0]}, B is {names[1]}. They differ most at {isolated(rows[row])} → {isolated(columns[column])}: "
        f"{a[row, column]:.2f} and {b[row, column]:.2f}. The heads that are furthest apart are those of layer {layer}, "
        f"head {head}: {distances[layer, head]:.2f}."
    )
