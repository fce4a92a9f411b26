"""Draws the neuron view, which explains a score: one query next to every key, and their products."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pellucid.errors import DataError, format_argument
from pellucid.tracing.attention import Array
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import EMPTY, FAINT_INK, HUE, INK, RULE, map_diverging_colours
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing
from pellucid.views.canvas.grid import scale_bar, widest
from pellucid.views.canvas.shapes import Box, Label, Raster
from pellucid.views.canvas.text import isolate_direction, label, labels
from pellucid.views.view_options import ViewOptions, format_title

MOST_KEYS = 60
FONT, LINE = 11.0, 15.0
STRIP_GAP = 12.0
SCORE_WIDTH, BIAS_WIDTH, WEIGHT_WIDTH = 44.0, 40.0, 92.0
TOP = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Products:
    """Holds the terms of the scores of one query. M keys, K the width of a head."""

    query: Array
    """(K,)."""
    keys: Array
    """(M, K)."""
    bias: Array | None
    """(M,), added to the scores."""
    weights: Array
    """(M,), zero where masked."""
    masked: np.ndarray
    """(M,), True where the query may not attend."""
    divided: bool = True
    """False if the model does not divide by sqrt(K) as equation 1 does: T5. `query` is the vector it multiplied."""

    @property
    def parts(self) -> Array:
        """Computes each dimension's part of each score: q_i k_ji / sqrt(K), (M, K); undivided if the model does not."""
        parts: Array = self.query * self.keys / np.float32(np.sqrt(len(self.query)) if self.divided else 1)
        return parts

    @property
    def scores(self) -> Array:
        """Computes the scores without bias, (M,)."""
        scores: Array = self.parts.sum(axis=1)
        return scores


def show_neuron(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws a query of a head of a trace. Raises DataError for several heads, ready-made weights or an invalid row."""
    choice = replace(choice, head=0 if choice.head is None else choice.head)
    (attention, layer), head = choice.place(trace), choice.head
    if not isinstance(head, int):
        raise DataError(f"the view neuron requires one head, not `head` {head!r}", "choose a number")
    if attention.q is None or attention.k is None:
        raise DataError(f"`{attention.name}` was made from weights, and has no queries and keys to show")
    queries, row = trace.sequences[attention.queries], choice.row
    if row is None:
        row = next((n for n, token in enumerate(queries) if not token.special), 0)
    if not 0 <= row < len(queries):
        raise DataError(
            f"{format_argument('row', row)} of `{attention.name}` must be in 0..{len(queries) - 1}", "rows count from 0"
        )
    key_head, bias = head // (attention.num_heads // attention.num_kv_heads), attention.bias
    divided, query = trace.divides_scores, attention.q[layer, head, row].astype(np.float32)
    products = Products(
        query=query if divided else query / np.float32(np.sqrt(len(query))),  # a trace includes sqrt(K)
        keys=attention.k[layer, key_head].astype(np.float32),
        bias=None if bias is None else bias[layer % len(bias), head % bias.shape[1], row].astype(np.float32),
        weights=attention.weights(layer, head)[row],
        masked=np.zeros(attention.size[1], np.bool_) if attention.mask is None else ~attention.mask[row],
        divided=divided,
    )
    shared = f"Keys of key head {key_head}, which heads share." if attention.num_kv_heads < attention.num_heads else ""
    turned = "Rotary positions have turned query and keys." if attention.rotary_base else ""
    title, note = choice.title or format_title(attention.name, layer, [head]), " ".join(filter(None, (shared, turned)))
    return draw_neuron(products, queries[row], trace.sequences[attention.keys], title, choice.pixels(), note)


def draw_neuron(
    products: Products, query: Token, keys: Sequence[Token], title: str, width: float | None = None, note: str = ""
) -> Drawing:
    """Draws one line per key: the key, its elementwise product with the query, the sum, and the weight.

    Of more than 60 keys only the 60 with the largest weights are shown, in their order.
    """
    room = (width or PAGE) - 2 * MARGIN
    shown = np.sort(np.argsort(-products.weights, kind="stable")[:MOST_KEYS])
    every_label = labels(keys)
    shown_labels = [every_label[place] for place in shown]
    left = max(widest([*shown_labels, label(query)]) * FONT + 8, 40.0)
    numbers = SCORE_WIDTH + WEIGHT_WIDTH + (BIAS_WIDTH if products.bias is not None else 0) + 2 * STRIP_GAP
    strip = max(60.0, min(230.0, (room - left - numbers - STRIP_GAP) / 2))
    drawing = Drawing(title, _description(products, query, keys))
    note = f"{note} {strongest(products, keys)}".strip()
    y = drawing.add_heading(title, note, width or PAGE) + 18
    x_keys, x_parts = MARGIN + left, MARGIN + left + strip + STRIP_GAP
    x_scores = x_parts + strip + STRIP_GAP
    vector_limit = float(max(np.abs(products.query).max(), np.abs(products.keys[shown]).max(), 1e-6))
    part_limit = float(max(np.abs(products.parts[shown]).max(), 1e-6))
    drawing.add(Label("query", x_keys, y - 5, SMALL_SIZE, fill=FAINT_INK))
    drawing.add(Label(label(query), x_keys - 6, y + 0.78 * LINE, FONT, "end", bold=True))
    _strip(drawing, products.query[None] / vector_limit, x_keys, y, strip, LINE)
    y += LINE + 24
    for x, text in (
        (x_keys, "keys"),
        (x_parts, f"query × key{' / √K' if products.divided else ''}, element by element"),
    ):
        drawing.add(Label(text, x, y - 5, SMALL_SIZE, fill=FAINT_INK))
    height = len(shown) * LINE
    _strip(drawing, products.keys[shown] / vector_limit, x_keys, y, strip, height)
    _strip(drawing, products.parts[shown] / part_limit, x_parts, y, strip, height)
    _numbers(drawing, products, shown, x_scores, y)
    drawing.add(*(Label(t, x_keys - 6, y + (i + 0.75) * LINE, FONT, "end") for i, t in enumerate(shown_labels)))
    y += height + 12
    for x, limit in ((x_keys, vector_limit), (x_parts, part_limit)):
        scale_bar(drawing, x, y, "", (f"−{limit:.2g}", f"{limit:.2g}"), two_sided=True)
    return drawing.finish(width)


def strongest(products: Products, keys: Sequence[Token]) -> str:
    """Returns a sentence: how much of the largest score its eight largest dimensions contribute."""
    place = int(products.weights.argmax())
    parts = products.parts[place]
    if len(parts) <= TOP or not abs(parts.sum()) > 1e-6:
        return ""
    top = np.argsort(-np.abs(parts), kind="stable")[:TOP]
    return (
        f"Of the score of {isolate_direction(label(keys[place]))}, {_figure(parts.sum())}, the {TOP} largest of "
        f"{len(parts)} "
        f"products make {_figure(parts[top].sum())}."
    )


def _figure(value: float, form: str = ".2f") -> str:
    return f"{value:{form}}".replace("-", "−")


def _strip(drawing: Drawing, values: Array, x: float, y: float, width: float, height: float) -> None:
    """Draws a line of small squares for each vector."""
    drawing.add(
        Raster(x, y, width, height, map_diverging_colours(values)),
        Box(x, y, width, height, stroke=RULE, stroke_width=0.75),
    )


def _numbers(drawing: Drawing, products: Products, shown: np.ndarray, x: float, y: float) -> None:
    """Draws the columns of numbers: score, bias, weight with a bar."""
    x_bias = x + SCORE_WIDTH
    x_weight = x_bias + (BIAS_WIDTH if products.bias is not None else 0) + STRIP_GAP
    headings = [("score", x_bias, "end"), ("weight", x_weight, "start")]
    headings += [("bias", x_bias + BIAS_WIDTH, "end")] if products.bias is not None else []
    drawing.add(*(Label(t, place, y - 5, SMALL_SIZE, anchor, FAINT_INK) for t, place, anchor in headings))  # type: ignore[arg-type]
    bar = WEIGHT_WIDTH - 34
    for i, place in enumerate(shown):
        line, middle = y + (i + 0.75) * LINE, y + (i + 0.5) * LINE
        if products.masked[place]:
            drawing.add(Label("masked", x_weight, line, SMALL_SIZE, fill=FAINT_INK))
            continue
        weight = float(products.weights[place])
        drawing.add(Label(_figure(products.scores[place]), x_bias, line, SMALL_SIZE, "end"))
        if products.bias is not None:
            drawing.add(Label(_figure(products.bias[place], "+.2f"), x_bias + BIAS_WIDTH, line, SMALL_SIZE, "end"))
        drawing.add(Box(x_weight, middle - 4, bar, 8, EMPTY), Box(x_weight, middle - 4, bar * weight, 8, HUE))
        drawing.add(Label(f"{weight:.3f}", x_weight + WEIGHT_WIDTH, line, SMALL_SIZE, "end", INK))


def _description(products: Products, query: Token, keys: Sequence[Token]) -> str:
    order = np.argsort(-products.weights, kind="stable")[:5]
    lines = (
        f"{isolate_direction(label(keys[i]))} score {products.scores[i]:.2f} weight {products.weights[i]:.3f}"
        for i in order
    )
    return (
        f"What the query {isolate_direction(label(query))} makes of each key. The largest weights: {'; '.join(lines)}."
    )
