"""Draws the matrix view: a head's weights as a heat map, or all heads of a layer side by side."""

from collections.abc import Sequence
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

from pellucid.tracing.attention import Array
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import FAINT_INK, hatch_masked, make_masked_swatch, sequential
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing
from pellucid.views.canvas.grid import Grid, scale_bar, swatch, widest
from pellucid.views.canvas.shapes import Label
from pellucid.views.canvas.text import isolate_direction, labels
from pellucid.views.view_options import ViewOptions, select

PANEL_GAP = 14.0
MOST_TOLD = 60
"""The largest number of rows and columns in a description, which is read aloud."""
Mask = npt.NDArray[np.bool_]


def show_matrix(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws the selected heads of a trace, or their mix."""
    found = select(trace, choice)
    names = [f"head {head}" for head in found.heads] if len(found.heads) > 1 else [""]
    return draw_matrix(
        found.weights, found.rows, found.columns, found.title, names, found.mask, choice.pixels(), note=found.note
    )


def draw_matrix(
    weights: Array,
    rows: Sequence[Token],
    columns: Sequence[Token],
    title: str,
    names: Sequence[str] = ("",),
    mask: Mask | None = None,
    width: float | None = None,
    across: int | None = None,
    meaning: str = "attention weight",
    note: str = "",
) -> Drawing:
    """Draws weights (P, L, M) as P panels, `names` below them; masked cells of `mask` (L, M) are hatched.

    Args:
        width: the width of the picture in pixels; None: its natural width, at most a page.
        across: the number of panels per line; None: the number that fills a page evenly.
        meaning: the name of the color scale.
        note: an important line below the title: hidden tokens, merged words.
    """
    room = (width or PAGE) - 2 * MARGIN
    row_labels, column_labels = labels(rows), labels(columns)
    across = across or _across(len(weights), len(rows) / len(columns))
    # Labels are drawn once: they take no part of a panel's share of the width.
    label_room = min(0.4 * room, widest(row_labels) * 8 + 5) if across > 1 else 0.0
    share = (room - label_room - (across - 1) * PANEL_GAP) / across + label_room
    grid = Grid.fit(row_labels, column_labels, share, largest=26 if len(weights) == 1 else 18)
    drawing = Drawing(title, _description(weights, row_labels, column_labels, names))
    top = drawing.add_heading(title, note, width or PAGE) + grid.top
    left, caption = MARGIN + grid.left, SMALL_SIZE + 6 if any(names) else 0.0
    step_right, step_down = grid.width + PANEL_GAP, grid.height + caption + PANEL_GAP
    for number, (panel, name) in enumerate(zip(weights, names, strict=True)):
        down, right = divmod(number, across)
        x, y = left + right * step_right, top + down * step_down
        grid.draw(drawing, x, y, hatch_masked(sequential(panel), mask))
        if right == 0:
            grid.draw_row_labels(drawing, x, y)
        if down == 0:
            grid.draw_column_labels(drawing, x, y)
        if name:
            place = (x + grid.width / 2, y + grid.height + SMALL_SIZE + 3)
            drawing.add(Label(name, *place, SMALL_SIZE, "middle", FAINT_INK))
    bottom = top + ceil(len(weights) / across) * step_down
    _legend(drawing, bottom, meaning, mask)
    return drawing.finish(width)


def _across(panels: int, height: float) -> int:
    """Returns the number of panels per line, `height` times as high as wide: the smallest that fills lines evenly."""
    lines = ceil(panels / ceil(sqrt(panels * 1.6 * height)))
    return ceil(panels / lines)


def _legend(drawing: Drawing, y: float, meaning: str, mask: Mask | None) -> None:
    reach = scale_bar(drawing, MARGIN, y, meaning)
    if mask is not None and not mask.all():
        swatch(drawing, reach + 20, y, make_masked_swatch(), "masked")


def _description(weights: Array, rows: list[str], columns: list[str], names: Sequence[str]) -> str:
    """Describes the strongest column of each row, of the mean over the panels."""
    of = f" in each of {len(names)} heads" if len(names) > 1 else ""
    mean = weights.mean(axis=0)
    strongest = (
        f"{isolate_direction(row)} → {isolate_direction(columns[int(w.argmax())])} {w.max():.2f}"
        for row, w in zip(rows[:MOST_TOLD], mean, strict=False)
    )
    average = ", of the mean" if len(names) > 1 else ""
    return (
        f"How much each row attends to each column{of}, from 0 (light) to 1 (dark). Rows: {_format_labels(rows)}. "
        f"Columns: {_format_labels(columns)}. The largest weight of each row{average}: "
        f"{'; '.join(strongest)}{_rest(rows)}."
    )


def _format_labels(labels: list[str]) -> str:
    return " ".join(map(isolate_direction, labels[:MOST_TOLD])) + _rest(labels)


def _rest(labels: list[str]) -> str:
    return f" and {len(labels) - MOST_TOLD} more" if len(labels) > MOST_TOLD else ""
