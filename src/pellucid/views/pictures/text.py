"""Draws the text view: both texts as running text, the keys shaded by the attention of the selected token."""

import unicodedata
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pellucid.errors import DataError
from pellucid.tracing.attention import Array
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import FAINT_INK, GOLD, INK, PAPER, shade
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing
from pellucid.views.canvas.grid import scale_bar
from pellucid.views.canvas.shapes import Box, Label
from pellucid.views.canvas.text import isolate_direction, label, labels, text_width, visible
from pellucid.views.view_options import ViewOptions, select

FONT, LINE, PAD = 13.0, 30.0, 1.5
NUMBERED, LEAST_NUMBERED = 6, 0.1
"""The number of largest weights that are written below their words, and the least weight that is written."""
DARK = 0.6


def show_text(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws the attention of a token, by the mean of the layer's heads or the selected head.

    The default row is the first that is not a special token. Raises DataError for a row out of range.
    """
    found = select(trace, choice if choice.head is not None else replace(choice, head="mean"))
    row = choice.row
    if row is None:
        row = next((place for place, token in enumerate(found.rows) if not token.special), 0)
    if not 0 <= row < len(found.rows):
        raise DataError(f"`row` ({row}) must be in 0..{len(found.rows) - 1}", f"{len(found.rows)} rows are shown")
    weights = found.weights.mean(axis=0)[row]
    several = f", mean of heads {', '.join(map(str, found.heads))}" if len(found.heads) > 1 else ""
    same = found.rows == found.columns
    return draw_text(
        weights, row, found.rows, found.columns, f"{found.title}{'' if choice.title else several}", same,
        choice.pixels(), found.note,
    )  # fmt: skip


def draw_text(
    weights: Array,
    row: int,
    rows: Sequence[Token],
    columns: Sequence[Token],
    title: str,
    same: bool = False,
    width: float | None = None,
    note: str = "",
) -> Drawing:
    """Draws the weights (M,) of a row as shades under the words of the columns.

    `same`: rows and columns are one text, which is drawn once.
    """
    page = width or PAGE
    drawing = Drawing(title, _description(weights, row, rows, columns))
    y = drawing.add_heading(title, note, page) + 8
    most = max(float(weights.max(initial=0.0)), 1e-9)
    if not same:
        y = _paragraph(drawing, "this word looks", rows, np.zeros(len(rows), np.float32), row, y, page, most)
    heading = "at these" if not same else "the framed word looks at the shaded ones"
    y = _paragraph(drawing, heading, columns, weights, row if same else None, y, page, most)
    scale_bar(drawing, MARGIN, y + 4, "attention weight", ("0", f"{most:.2f}"))
    return drawing.finish(width)


def _paragraph(
    drawing: Drawing,
    heading: str,
    tokens: Sequence[Token],
    weights: Array,
    framed: int | None,
    y: float,
    page: float,
    most: float,
) -> float:
    """Draws running text, right to left if its script is; returns its lower end."""
    drawing.add(Label(heading, MARGIN, y + 8, SMALL_SIZE, fill=FAINT_INK))
    y += 14
    room = page - 2 * MARGIN
    numbered = set(np.argsort(-weights, kind="stable")[:NUMBERED].tolist())
    leftwards = _runs_left(tokens)
    x = 0.0
    for place, token in enumerate(tokens):
        text = _format_token(token)
        width = text_width(text) * FONT + 2 * PAD
        space = 0.3 * FONT if place and not _joins(tokens[place - 1], token) else 0.0
        if x and x + space + width > room:
            x, y = 0.0, y + LINE
        elif x:
            x += space
        left = MARGIN + (room - x - width if leftwards else x)
        _word(drawing, text, (left, y, width), float(weights[place]) / most, framed == place)
        if place in numbered and weights[place] >= LEAST_NUMBERED:
            number = f"{weights[place]:.2f}"
            drawing.add(Label(number, left + width / 2, y + 26, 7.5, "middle", FAINT_INK))
        x += width
    return y + LINE + 6


def _word(drawing: Drawing, text: str, at: tuple[float, float, float], share: float, framed: bool) -> None:
    x, y, width = at
    if share > 0.005:
        drawing.add(Box(x, y, width, 18, shade(share), radius=2))
    if framed:
        drawing.add(Box(x, y, width, 18, stroke=GOLD, stroke_width=2, radius=2))
    drawing.add(Label(text, x + width / 2, y + 13.5, FONT, "middle", PAPER if share >= DARK else INK))


def _format_token(token: Token) -> str:
    """Returns a token as shown in a text: shortened if it is long, without the space before it."""
    shown = label(token)
    return shown if token.special or token.text.strip() else visible(token.text) or shown


def _joins(before: Token, token: Token) -> bool:
    """Returns True if no space separates two tokens."""
    if before.special or token.special:
        return False
    if token.word is not None and token.word == before.word:
        return True
    closes = unicodedata.category(token.text[:1] or "a") in ("Po", "Pe", "Pf")
    return closes and not token.text[:1].isspace()


def _runs_left(tokens: Sequence[Token]) -> bool:
    """Returns True if the first letter with a direction belongs to a right-to-left script."""
    letters = (unicodedata.bidirectional(c) for token in tokens if not token.special for c in token.text)
    return next((kind in ("R", "AL") for kind in letters if kind in ("L", "R", "AL")), False)


def _description(weights: Array, row: int, rows: Sequence[Token], columns: Sequence[Token]) -> str:
    names = labels(columns)
    order = np.argsort(-weights, kind="stable")[:NUMBERED].tolist()
    told = "; ".join(f"{isolate_direction(names[place])} {weights[place]:.2f}" for place in order)
    return f"The text, shaded by how much {isolate_direction(labels(rows)[row])} looked at each word. Most: {told}."
