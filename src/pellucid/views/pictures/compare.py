"""Draws the compare view: two attentions, their difference, and the distance between each of their heads."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pellucid.analysis.compare import compare
from pellucid.errors import DataError
from pellucid.tracing.attention import Array
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import FAINT_INK, GOLD, hatch_masked, map_diverging_colours, sequential
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing
from pellucid.views.canvas.grid import Grid, MapPanel, draw_map, scale_bar, widest
from pellucid.views.canvas.shapes import Box, Label
from pellucid.views.canvas.text import isolate_direction, labels, shorten
from pellucid.views.pictures.matrix import Mask
from pellucid.views.view_options import Heads, ViewOptions, format_title, select

PANEL_GAP = 14.0


def show_compare(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws a head of two traces; by default the one that differs most.

    Raises DataError if there is no other trace, or it differs in the number of layers, heads, rows or columns.
    """
    if choice.other is None:
        raise DataError("nothing to compare with", "pass the other trace as `other=`")
    attention, layer = choice.place(trace)
    shared = compare(trace, choice.other)
    if attention.name not in shared:
        raise DataError(f"the other trace has no attention `{attention.name}`", f"both have {', '.join(shared)}")
    distances = shared[attention.name].distances()
    layer, head = _find_most_different(distances, choice, layer)
    chosen = replace(choice, attention=attention.name, layer=layer, head=head)
    a, b = select(trace, chosen), select(choice.other, chosen)
    if a.weights.shape != b.weights.shape or len(a.heads) > 1:
        raise DataError(
            f"the selected weights have the shapes {a.weights.shape} and {b.weights.shape}; the comparison requires "
            "one head of each and equal numbers of rows and columns",
            "choose one head, and do not hide or merge tokens if the texts differ",
        )
    first, second = choice.names or (str(t.model.get("name", "model")) for t in (trace, choice.other))
    marked = (layer, head) if isinstance(head, int) else None
    return draw_compare(
        a.weights[0], b.weights[0], a.rows, a.columns,
        choice.title or format_title(attention.name, layer, a.heads if marked else []), (first, second),
        distances, marked, a.mask, choice.pixels(), a.note,
    )  # fmt: skip


def find_compared_head(trace: Trace, choice: ViewOptions, other: Trace) -> tuple[int, Heads]:
    """Returns the layer and the head that a comparison shows. Raises the errors of compare()."""
    attention, layer = choice.place(trace)
    shared = compare(trace, other)
    if choice.head is not None or attention.name not in shared:
        return layer, choice.head
    return _find_most_different(shared[attention.name].distances(), choice, layer)


def _find_most_different(distances: Array, choice: ViewOptions, layer: int) -> tuple[int, Heads]:
    """Returns the selected head; by default the one that differs most, of the selected layer if there is one."""
    if choice.head is not None:
        return layer, choice.head
    if choice.layer is not None:
        return layer, int(distances[layer].argmax())
    layer, head = (int(place) for place in np.unravel_index(int(distances.argmax()), distances.shape))
    return layer, head


def draw_compare(
    a: Array,
    b: Array,
    rows: Sequence[Token],
    columns: Sequence[Token],
    title: str,
    names: tuple[str, str],
    distances: Array,
    marked: tuple[int, int] | None,
    mask: Mask | None = None,
    width: float | None = None,
    note: str = "",
) -> Drawing:
    """Draws A and B (L, M) side by side, A minus B in two colors, and the distances of all heads (N, H) below.

    `marked`: the (layer, head) that is shown above.
    """
    page = width or PAGE
    row_labels, column_labels = labels(rows), labels(columns)
    label_room = min(0.3 * page, widest(row_labels) * 8 + 5)
    share = (page - 2 * MARGIN - label_room - 2 * PANEL_GAP) / 3 + label_room
    grid = Grid.fit(row_labels, column_labels, share, largest=22)
    drawing = Drawing(title, _description(a, b, row_labels, column_labels, names, distances))
    x, y = MARGIN + grid.left, drawing.add_heading(title, note, page) + grid.top
    most = max(float(np.abs(a - b).max()), 1e-6)
    panels = (
        (f"A: {names[0]}", sequential(a)),
        (f"B: {names[1]}", sequential(b)),
        ("A − B", map_diverging_colours((a - b) / most)),
    )
    for number, (name, pixels) in enumerate(panels):
        left = x + number * (grid.width + PANEL_GAP)
        grid.draw(drawing, left, y, hatch_masked(pixels, mask))
        grid.draw_column_labels(drawing, left, y)
        text = shorten(name, max(8.0, grid.width / SMALL_SIZE))
        drawing.add(Label(text, left + grid.width / 2, y + grid.height + 14, SMALL_SIZE, "middle", FAINT_INK))
    grid.draw_row_labels(drawing, x, y)
    y += grid.height + 26
    reach = scale_bar(drawing, MARGIN, y, "weight") + 22
    scale_bar(drawing, reach, y, "A − B", (f"−{most:.2g}", f"{most:.2g}"), two_sided=True)
    _distances(drawing, distances, marked, y + 26, page)
    return drawing.finish(width)


def _distances(drawing: Drawing, distances: Array, marked: tuple[int, int] | None, y: float, page: float) -> None:
    """Draws the heads' distances as a heat map."""
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
        f"A is {names[0]}, B is {names[1]}. They differ most at {isolate_direction(rows[row])} → "
        f"{isolate_direction(columns[column])}: "
        f"{a[row, column]:.2f} and {b[row, column]:.2f}. The heads that are furthest apart are those of layer {layer}, "
        f"head {head}: {distances[layer, head]:.2f}."
    )
