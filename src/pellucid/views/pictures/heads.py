"""Draws the heads view: two columns of tokens, and an arc for each of the largest weights, colored by head."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from pellucid.errors import DataError
from pellucid.tracing.attention import Array
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import FAINT_INK, RULE, head_colour
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing
from pellucid.views.canvas.grid import swatch, widest
from pellucid.views.canvas.shapes import Box, Label, Line
from pellucid.views.canvas.text import isolate_direction, labels
from pellucid.views.view_options import ViewOptions, select

MOST_ARCS = 4_000
FAINTEST = 0.02
"""The least weight whose line is visible."""
TALLEST, LINE, LARGEST_FONT = 1_100.0, 17.0, 12.0
ARCS_WIDTH = 230.0
SEGMENT_GAP, SEGMENT_MARK = 12.0, 16.0


def show_heads(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws the selected heads of a trace. Raises DataError for a mix of heads."""
    found = select(trace, choice)
    if found.heads == [-1]:
        raise DataError(
            f"the view heads shows separate heads, and `head` {choice.head!r} combines them", "view a matrix"
        )
    top_k = MOST_ARCS if choice.top_k is None else choice.top_k
    return draw_heads(
        found.weights, found.rows, found.columns, found.title, found.heads, top_k, choice.pixels(), found.note
    )


def draw_heads(
    weights: Array,
    rows: Sequence[Token],
    columns: Sequence[Token],
    title: str,
    heads: Sequence[int],
    top_k: int = MOST_ARCS,
    width: float | None = None,
    note: str = "",
) -> Drawing:
    """Draws weights (P, L, M) of the given heads, from rows on the left to columns on the right.

    The opacity of an arc is its weight; the `top_k` largest above 0.02 are drawn. The arcs of different heads end at
    slightly different heights.
    """
    room = (width or PAGE) - 2 * MARGIN
    sides = [labels(rows), labels(columns)]
    line = min(LINE, max(2.0, TALLEST / max(len(rows), len(columns))))
    font = min(LARGEST_FONT, max(5.0, 0.78 * line))
    left, right = (widest(side) * font + 6 for side in sides)
    arcs = min(ARCS_WIDTH, max(80.0, room - left - right - 2 * SEGMENT_MARK))
    drawing = Drawing(title, _description(weights, sides, heads))
    y = drawing.add_heading(title, note, width or PAGE) + 4
    y = _legend(drawing, heads, y, room)
    apart = SEGMENT_MARK if any(token.segment for token in [*rows, *columns]) else 0.0
    x = MARGIN + apart + left
    places = [_places(side, line, y) for side in (rows, columns)]
    for start, end, head_place, weight in _largest(weights, top_k):
        shift = ((head_place + 0.5) / len(heads) - 0.5) * 0.6 * line
        a, b = places[0][start] + shift, places[1][end] + shift
        points = ((x, a), (x + 0.45 * arcs, a), (x + 0.55 * arcs, b), (x + arcs, b))
        stroke = max(0.5, min(1.6, 4 * line / 17 / len(heads) + 0.5))
        drawing.add(Line(points, head_colour(heads[head_place]), stroke, float(weight), curved=True))
    every = int(np.ceil(1.02 * font / line))
    for texts, ys, edge, anchor in ((sides[0], places[0], x - 4, "end"), (sides[1], places[1], x + arcs + 4, "start")):
        named = zip(texts[::every], ys[::every], strict=True)
        drawing.add(*(Label(text, edge, place + 0.35 * font, font, anchor) for text, place in named))  # type: ignore[arg-type]
    if apart:
        _mark_segments(drawing, rows, places[0], MARGIN + 12, line)
        _mark_segments(drawing, columns, places[1], x + arcs + right + 4, line)
    return drawing.finish(width)


def _places(tokens: Sequence[Token], line: float, top: float) -> list[float]:
    """Returns the vertical position of each token; a second text is set apart from the first."""
    first = tokens[0].segment
    return [top + (i + 0.5) * line + SEGMENT_GAP * (token.segment != first) for i, token in enumerate(tokens)]


def _largest(weights: Array, top_k: int) -> list[tuple[int, int, int, float]]:
    """Returns (row, column, index of the head, weight) of the largest weights, the largest last, to be drawn on top."""
    flat = weights.ravel()
    found = np.flatnonzero(flat >= FAINTEST)
    if len(found) > top_k:
        strongest = np.argsort(-flat[found], kind="stable")[:top_k]
        found = found[strongest]
    ordered = found[np.lexsort((found, flat[found]))]
    places = zip(*np.unravel_index(ordered, weights.shape), flat[ordered], strict=True)
    return [(int(row), int(column), int(number), min(1.0, float(w))) for number, row, column, w in places]


def _legend(drawing: Drawing, heads: Sequence[int], y: float, room: float) -> float:
    """Draws the legend of the heads' colors; returns its lower end."""
    x = MARGIN
    for place, head in enumerate(heads):
        text = f"head {head}" if place == 0 else str(head)
        if x + 40 > MARGIN + room:
            x, y = MARGIN, y + 17
        x = swatch(drawing, x, y, head_colour(head), text) + 12
    return y + 20


def _mark_segments(drawing: Drawing, tokens: Sequence[Token], ys: list[float], edge: float, line: float) -> None:
    """Draws a rule next to each of two texts, with its letter."""
    for segment, group in groupby(range(len(tokens)), key=lambda place: tokens[place].segment):
        places = list(group)
        first, last = ys[places[0]] - line / 2 + 1, ys[places[-1]] + line / 2 - 1
        drawing.add(Box(edge - 1, first, 2, last - first, RULE))
        left = edge < MARGIN + SEGMENT_MARK
        place = (edge - 5, (first + last) / 2 + 4) if left else (edge + 5, (first + last) / 2 + 4)
        drawing.add(Label("AB"[segment], *place, SMALL_SIZE, "end" if left else "start", FAINT_INK, bold=True))


def _description(weights: Array, sides: list[list[str]], heads: Sequence[int]) -> str:
    lines = []
    for number, of_head in zip(heads, weights, strict=True):
        row, column = np.unravel_index(int(of_head.argmax()), of_head.shape)
        pair = f"{isolate_direction(sides[0][row])} → {isolate_direction(sides[1][column])}"
        lines.append(f"head {number}: {pair} {of_head[row, column]:.2f}")
    return (
        f"Arcs from {len(sides[0])} tokens at the left to the {len(sides[1])} that they attend to at the right, the "
        f"more opaque the larger the weight. The largest of each head: {'; '.join(lines)}."
    )
