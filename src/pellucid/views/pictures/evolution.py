"""Draws the evolution view: a statistic of every head at every checkpoint of a run."""

from collections.abc import Sequence

import numpy as np

from pellucid.analysis.statistics import STATISTICS
from pellucid.errors import ConfigError, DataError, did_you_mean
from pellucid.tracing.attention import Array
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import FAINT_INK, RULE, sequential
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing
from pellucid.views.canvas.grid import scale_bar
from pellucid.views.canvas.shapes import Box, Label, Raster
from pellucid.views.view_options import ViewOptions
from pellucid.views.words import log_line

LABELS, LAYER_GAP = 84.0, 5.0
TALLEST_ROW, WIDEST_COLUMN = 14.0, 46.0
MOST_HEIGHT = 900.0


def show_evolution(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws a statistic by checkpoint. Raises DataError without checkpoints, ConfigError for an unknown statistic."""
    found = choice.evolution
    if found is None:
        raise DataError("the trace is of one checkpoint", "pass the statistics of a run's checkpoints as `evolution`")
    (attention, _), statistic = choice.place(trace), choice.statistic or STATISTICS[0]
    if statistic not in STATISTICS:
        known = f"choose one of {', '.join(STATISTICS)}"
        raise ConfigError(f"unknown statistic `{statistic}`{did_you_mean(statistic, STATISTICS)}", known)
    title = f"{log_line(attention.name).capitalize()}: {statistic} over the steps"
    values = found.statistics[attention.name][statistic]
    return draw_evolution(values, found.steps, choice.title or title, statistic, choice.pixels())


def draw_evolution(
    values: Array, steps: Sequence[int], title: str, statistic: str, width: float | None = None
) -> Drawing:
    """Draws values (C, N, H): one row per head, layers apart, one column per checkpoint, labeled with its step."""
    _, num_layers, num_heads = values.shape
    room = (width or PAGE) - 2 * MARGIN - LABELS
    row = min(TALLEST_ROW, MOST_HEIGHT / (num_layers * num_heads))
    column = min(WIDEST_COLUMN, room / len(steps))
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) / (high - low) if high > low else np.zeros_like(values)
    drawing = Drawing(title, _description(values, steps, statistic))
    x, y = MARGIN + LABELS, drawing.add_heading(title, "", width or PAGE) + 6
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
    return drawing.finish(width)


def _description(values: Array, steps: Sequence[int], statistic: str) -> str:
    change = values[-1] - values[0]
    layer, head = np.unravel_index(int(np.abs(change).argmax()), change.shape)
    return (
        f"The {statistic} of each of {values.shape[1]} x {values.shape[2]} heads at {len(steps)} checkpoints, steps "
        f"{steps[0]:,} to {steps[-1]:,}. Most changed is layer {layer}, head {head}: from {values[0, layer, head]:.3g} "
        f"to {values[-1, layer, head]:.3g}."
    )
