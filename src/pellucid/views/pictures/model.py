"""Draws the model view: all heads of all layers as thumbnails, one image per kind of attention."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import FAINT_INK, HUE, INK, RULE, rgb, sequential
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing
from pellucid.views.canvas.grid import scale_bar
from pellucid.views.canvas.shapes import Box, Label, Pixels, Raster
from pellucid.views.view_options import ViewOptions
from pellucid.views.words import log_line

Thumbnails = npt.NDArray[np.uint8]

SIZE = 32
"""The width and height of a thumbnail in pixels."""
LARGEST_SIDE, SMALLEST_SIDE = 52.0, 14.0
SPACE = 2
"""The pixels between two thumbnails."""
LABELS, NAME_SIZE = 30.0, 11.5


def show_model(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws all attentions of a trace, or the selected one; a single selected head gets a frame."""
    names = [name for name in trace.attentions if name != "search.cross"]
    marked = {}
    if choice.attention or choice.layer is not None or choice.head is not None:
        attention, layer = choice.place(trace)
        if isinstance(choice.head, int):
            marked = {attention.name: [(layer, choice.head)]}
    if choice.attention and not marked:
        names = [choice.attention]
    parts = {name: thumbnails(trace[name]) for name in names}
    title = choice.title or f"Every head of {trace.model.get('name', 'the model')}"
    return draw_model(parts, title, marked, choice.pixels())


def thumbnails(attention: AttentionTrace, size: int = SIZE) -> Thumbnails:
    """Returns the weights of all heads as thumbnails, (N, H, size, size), 255 for a weight of 1.

    A pixel is the maximum of the weights that it covers, so that a single large one stays visible; with fewer tokens
    than pixels, a weight covers several pixels.
    """
    layers = (torch.from_numpy(attention.layer_weights(layer)) for layer in range(attention.num_layers))
    pooled = [F.adaptive_max_pool2d(weights[None], size)[0] for weights in layers]
    found: Thumbnails = (torch.stack(pooled) * 255).round_().clamp_(0, 255).to(torch.uint8).numpy()
    return found


def draw_model(
    thumbnails: Mapping[str, Thumbnails],
    title: str,
    marked: Mapping[str, Sequence[tuple[int, int]]] | None = None,
    width: float | None = None,
) -> Drawing:
    """Draws thumbnails (N, H, 32, 32) by the name of their attention, one line per layer, the first at the top.

    `marked`: (layer, head) pairs to draw a frame around.
    """
    room = (width or PAGE) - 2 * MARGIN - LABELS
    side = max(SMALLEST_SIDE, min(LARGEST_SIDE, room / max(part.shape[1] for part in thumbnails.values())))
    drawing = Drawing(title, _description(thumbnails))
    y = drawing.add_heading(title, "", width or PAGE)
    for name, part in thumbnails.items():
        y += 26
        drawing.add(Label(log_line(name), MARGIN, y - 8, NAME_SIZE, fill=INK, bold=True))
        y = _draw_part(drawing, part, y + 8, side, (marked or {}).get(name, ()))
    y += 16
    note = "largest weight under a pixel; rows top to bottom, columns left to right"
    scale_bar(drawing, MARGIN, y, note)
    return drawing.finish(width)


def _draw_part(drawing: Drawing, part: Thumbnails, y: float, side: float, marked: Sequence[tuple[int, int]]) -> float:
    """Draws one kind of attention with its numbers; returns its lower end."""
    num_layers, num_heads = part.shape[:2]
    x, space = MARGIN + LABELS, side * SPACE / (part.shape[2] + SPACE)
    drawing.add(
        Raster(x, y, num_heads * side, num_layers * side, mosaic(part)),
        *(
            Label(f"{'head ' if n == 0 and side > 34 else ''}{n}", x + (n + 0.5) * side - space / 2, y - 4, SMALL_SIZE,
                  "middle", FAINT_INK)
            for n in range(num_heads)
        ),
        *(
            Label(f"{'layer ' if n < 0 else ''}{n}", x - 6, y + (n + 0.5) * side + 3, SMALL_SIZE, "end", FAINT_INK)
            for n in range(num_layers)
        ),
        Label("layer", MARGIN, y - 4, SMALL_SIZE, fill=FAINT_INK),
    )  # fmt: skip
    for layer, number in marked:
        frame = Box(x + number * side, y + layer * side, side - space, side - space, stroke=HUE, stroke_width=2)
        drawing.add(frame)
    return float(y + num_layers * side)


def mosaic(part: Thumbnails) -> Pixels:
    """Joins thumbnails (N, H, s, s) into one image (N * (s + 2), H * (s + 2), 3), with thin rules around each."""
    num_layers, num_heads, side, _ = part.shape
    step = side + SPACE
    tiles = np.full((num_layers, num_heads, step, step, 3), 255, np.uint8)
    tiles[:, :, :side, :side] = sequential(part / np.float32(255))
    tiles[:, :, side, : side + 1] = tiles[:, :, : side + 1, side] = rgb(RULE)
    return tiles.transpose(0, 2, 1, 3, 4).reshape(num_layers * step, num_heads * step, 3)


def _description(thumbnails: Mapping[str, Thumbnails]) -> str:
    kinds = (f"{log_line(name)}, {part.shape[0]} x {part.shape[1]}" for name, part in thumbnails.items())
    return f"A small heat map of every head, a line a layer: {'; '.join(kinds)}."
