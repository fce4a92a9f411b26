"""The evolution view: a statistic of every head at every checkpoint of a run."""

from collections.abc import Sequence

import numpy as np

from pellucid.tracing.trace import Array
from pellucid.views.canvas.colours import FAINT_INK, RULE, sequential
from pellucid.views.canvas.drawing import PAGE, Box, Drawing, Label, Raster
from pellucid.views.canvas.grid import MARGIN, SMALL_SIZE, finish, heading, scale_bar
from pellucid.views.pictures.matrix import Heading

LABELS, LAYER_GAP = 84.0, 5.0
TALLEST_ROW, WIDEST_COLUMN = 14.0, 46.0
MOST_HEIGHT = 900.0


def draw_evolution(
    values: Array, steps: Sequence[int], head: Heading, statistic: str, width: float | None = None
) -> Drawing:
    """Values (C, N, H) at C checkpoints: a row a head, layers apart, a column a checkpoint with its step."""
    _, num_layers, num_heads = values.shape
    room = (width or PAGE) - 2 * MARGIN - LABELS
    row = min(TALLEST_ROW, MOST_HEIGHT / (num_layers * num_heads))
    column = min(WIDEST_COLUMN, room / len(steps))
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) / (high - low) if high > low else np.zeros_like(values)
    drawing = Drawing(head.title, _description(values, steps, statistic))
    x, y = MARGIN + LABELS, heading(drawing, head.title, head.note, width or PAGE) + 6
    for layer in range(num_layers):
        height = num_heads * row
        drawing.add(Raster(x, y, len(steps) * column, height, sequential(scaled[:, layer].T)))
        drawing.add(Box(x, y, len(steps) * column, height, stroke=RULE, stroke_width=0.75))
        drawing.add(Label(f"layer {layer}", MARGIN, y + row - 3, SMALL_SIZE, fill=FAINT_INK))
        if row >= 8:
            of_heads = (Label(f"head {n}", x - 5, y + (n + 0.5) * row + 3, 8.5, "end") for n in range(num_heads))
            drawing.add(*of_heads)
        y += height + LAYER_GAP
    widest_step = max(len(f"{step:,}") for step in steps) * 0.62 * SMALL_SIZE + 6
    every = max(1, int(np.ceil(widest_step / column)))
    for number in range(0, len(steps), every):
        place = (x + (number + 0.5) * column, y + 9)
        drawing.add(Label(f"{steps[number]:,}", *place, SMALL_SIZE, "middle", FAINT_INK))
    drawing.add(Label("step", MARGIN, y + 9, SMALL_SIZE, fill=FAINT_INK))
    scale_bar(drawing, MARGIN, y + 22, statistic, (f"{low:.3g}", f"{high:.3g}"))
    return finish(drawing, width)


def _description(values: Array, steps: Sequence[int], statistic: str) -> str:
    change = values[-1] - values[0]
    layer, head = np.unravel_index(int(np.abs(change).argmax()), change.shape)
    return (
        f"The {statistic} of each of {values.shape[1]} x {values.shape[2]} heads at {len(steps)} checkpoints, steps "
        f"{steps[0]:,} to {steps[-1]:,}. Most changed is layer {layer}, head {head}: from {values[0, layer, head]:.3g} "
        f"to {values[-1, layer, head]:.3g}."
    )
