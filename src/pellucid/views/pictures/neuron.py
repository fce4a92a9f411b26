"""The neuron view: where a score comes from. One query beside every key, number by number, and their product."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.tracing.trace import Array, Token
from pellucid.views.canvas.colours import EMPTY, FAINT_INK, HUE, INK, RULE, diverging
from pellucid.views.canvas.drawing import PAGE, Box, Drawing, Label, Raster
from pellucid.views.canvas.grid import MARGIN, SMALL_SIZE, finish, heading, scale_bar, widest
from pellucid.views.canvas.text import isolated, label, labels
from pellucid.views.pictures.matrix import Heading

MOST_KEYS = 60
FONT, LINE = 11.0, 15.0
STRIP_GAP = 12.0
SCORE_WIDTH, BIAS_WIDTH, WEIGHT_WIDTH = 44.0, 40.0, 92.0
TOP = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Products:
    """What the scores of one query are made of. M keys, K the width of a head."""

    query: Array
    """(K,)."""
    keys: Array
    """(M, K)."""
    bias: Array | None
    """(M,), what is added to the scores."""
    weights: Array
    """(M,), zero where masked."""
    masked: np.ndarray
    """(M,), True where the query may not attend."""

    @property
    def parts(self) -> Array:
        """What each dimension adds to each score: q_i k_ji / sqrt(K), (M, K)."""
        parts: Array = self.query * self.keys / np.float32(np.sqrt(len(self.query)))
        return parts

    @property
    def scores(self) -> Array:
        """(M,), without bias."""
        scores: Array = self.parts.sum(axis=1)
        return scores


def draw_neuron(
    products: Products, query: Token, keys: Sequence[Token], head: Heading, width: float | None = None
) -> Drawing:
    """A line a key: the key, its product with the query element by element, their sum, and the weight.

    Beyond 60 keys the 60 of the largest weights are shown, in their order.
    """
    room = (width or PAGE) - 2 * MARGIN
    shown = np.sort(np.argsort(-products.weights, kind="stable")[:MOST_KEYS])
    every_label = labels(keys)
    shown_labels = [every_label[place] for place in shown]
    left = max(widest([*shown_labels, label(query)]) * FONT + 8, 40.0)
    numbers = SCORE_WIDTH + WEIGHT_WIDTH + (BIAS_WIDTH if products.bias is not None else 0) + 2 * STRIP_GAP
    strip = max(60.0, min(230.0, (room - left - numbers - STRIP_GAP) / 2))
    drawing = Drawing(head.title, _description(products, query, keys))
    note = f"{head.note} {strongest(products, keys)}".strip()
    y = heading(drawing, head.title, note, width or PAGE) + 18
    x_keys, x_parts = MARGIN + left, MARGIN + left + strip + STRIP_GAP
    x_scores = x_parts + strip + STRIP_GAP
    vector_limit = float(max(np.abs(products.query).max(), np.abs(products.keys[shown]).max(), 1e-6))
    part_limit = float(max(np.abs(products.parts[shown]).max(), 1e-6))
    drawing.add(Label("query", x_keys, y - 5, SMALL_SIZE, fill=FAINT_INK))
    drawing.add(Label(label(query), x_keys - 6, y + 0.78 * LINE, FONT, "end", bold=True))
    _strip(drawing, products.query[None] / vector_limit, x_keys, y, strip, LINE)
    y += LINE + 24
    for x, text in ((x_keys, "keys"), (x_parts, "query × key / √K, element by element")):
        drawing.add(Label(text, x, y - 5, SMALL_SIZE, fill=FAINT_INK))
    height = len(shown) * LINE
    _strip(drawing, products.keys[shown] / vector_limit, x_keys, y, strip, height)
    _strip(drawing, products.parts[shown] / part_limit, x_parts, y, strip, height)
    _numbers(drawing, products, shown, x_scores, y)
    drawing.add(*(Label(t, x_keys - 6, y + (i + 0.75) * LINE, FONT, "end") for i, t in enumerate(shown_labels)))
    y += height + 12
    for x, limit in ((x_keys, vector_limit), (x_parts, part_limit)):
        scale_bar(drawing, x, y, "", (f"−{limit:.2g}", f"{limit:.2g}"), two_sided=True)
    return finish(drawing, width)


def strongest(products: Products, keys: Sequence[Token]) -> str:
    """How much of the largest score its eight largest dimensions make, in a sentence."""
    place = int(products.weights.argmax())
    parts = products.parts[place]
    if len(parts) <= TOP or not abs(parts.sum()) > 1e-6:
        return ""
    top = np.argsort(-np.abs(parts), kind="stable")[:TOP]
    return (
        f"Of the score of {isolated(label(keys[place]))}, {_figure(parts.sum())}, the {TOP} largest of {len(parts)} "
        f"products make {_figure(parts[top].sum())}."
    )


def _figure(value: float, form: str = ".2f") -> str:
    return f"{value:{form}}".replace("-", "−")


def _strip(drawing: Drawing, values: Array, x: float, y: float, width: float, height: float) -> None:
    """A line of small squares for each vector."""
    drawing.add(
        Raster(x, y, width, height, diverging(values)), Box(x, y, width, height, stroke=RULE, stroke_width=0.75)
    )


def _numbers(drawing: Drawing, products: Products, shown: np.ndarray, x: float, y: float) -> None:
    """The columns of figures: score, bias, weight with a bar."""
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
        f"{isolated(label(keys[i]))} score {products.scores[i]:.2f} weight {products.weights[i]:.3f}" for i in order
    )
    return f"What the query {isolated(label(query))} makes of each key. The largest weights: {'; '.join(lines)}."
