"""Attention weights as an SVG: one matrix, or the heads of a layer side by side."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, sqrt
from typing import Self

import numpy as np

from pellucid.errors import DataError

# Mixed with a light ground, which sRGB does in nearly even steps of lightness, this blue runs from 0 to 1 evenly.
HUE, EMPTY, PAPER, INK, FAINT_INK = "#123f8c", "#eef1f6", "#ffffff", "#1b2330", "#5b6675"
FONTS = "system-ui, 'Noto Sans', 'Noto Sans CJK KR', sans-serif"
MARGIN, TITLE_SIZE, SMALL_SIZE = 20.0, 15.0, 11.0
PANEL_GAP = 18.0
LONGEST_LABEL = 24
LEGEND_STEPS, LEGEND_WIDTH = 11, 270.0

CONTROL_PICTURES = {**{code: 0x2400 + code for code in range(0x20)}, 0x7F: 0x2421, 0x09: 0x21E5, 0x0A: 0x21B5}
NOT_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")


def draw_attention(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str = "") -> str:
    """An SVG of weights (L, M), or of several heads' (N, L, M): what each of L `rows` takes from each of M `columns`.

    Heads are numbered from 0 and drawn as small multiples. Every cell tells its tokens and its weight when pointed at.
    Equal input gives equal text. Raises DataError where shape and tokens differ, or a weight is not in 0..1.
    """
    heads = _checked(np.asarray(weights, dtype=np.float64), rows, columns)
    page = _Page.of(len(heads), rows, columns, title)
    lines = _opening(page)
    for number, head in enumerate(heads):
        lines += _panel(page, number, head)
    return "\n".join([*lines, *_legend(page), "</svg>\n"])


def printable(text: str) -> str:
    """The text with control characters as ␀ to ␡ (tab ⇥, newline ↵), and what XML cannot hold as �."""
    return NOT_XML.sub("�", text.translate(CONTROL_PICTURES))


def visible(token: str) -> str:
    """The printable token with its spaces as ␣."""
    return "".join("␣" if char.isspace() else char for char in printable(token))


def text_width(text: str) -> float:
    """A guess, rather too wide, of how long a text runs, in units of its font size."""
    wide = {"W": 1.0, "F": 1.0}
    return sum(0.0 if unicodedata.combining(c) else wide.get(unicodedata.east_asian_width(c), 0.6) for c in text)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Page:
    """What stands where; lengths in pixels."""

    heads: int
    rows: list[str]
    columns: list[str]
    title: str
    cell: float
    font: float
    slanted: bool
    """Whether the columns' labels are too long to stand upright."""
    left: float
    top: float
    across: int
    """Panels side by side."""
    step_right: float
    step_down: float
    width: float
    height: float

    @classmethod
    def of(cls, heads: int, row_tokens: Sequence[str], column_tokens: Sequence[str], title: str) -> Self:
        rows, columns = [visible(token) for token in row_tokens], [visible(token) for token in column_tokens]
        row_widths, column_widths = ([text_width(_short(label)) for label in side] for side in (rows, columns))
        room, largest = (560, 28) if heads == 1 else (220, 20)
        cell = float(min(largest, max(6, room // max(len(rows), len(columns)))))
        font = min(13.0, 0.75 * cell)
        slanted = max(column_widths) * font > cell - 2
        font = min(font, 0.65 * cell) if slanted else font  # slanted lines of text lie closer than columns
        rise = max(column_widths) * font * sqrt(0.5) + font if slanted else 1.5 * font
        panel_width, panel_height = len(columns) * cell, len(rows) * cell
        ends = [(j + 0.5) * cell + width * font * sqrt(0.5) for j, width in enumerate(column_widths)]
        down = ceil(heads / ceil(sqrt(heads * 1.6 * panel_height / panel_width)))
        across = ceil(heads / down)  # as few as fill the lines evenly
        left, top = MARGIN + max(row_widths) * font + 8, MARGIN + (TITLE_SIZE + 16 if title else 0) + rise
        step_right, step_down = panel_width + PANEL_GAP, panel_height + PANEL_GAP + (SMALL_SIZE + 4 if heads > 1 else 0)
        right = left + (across - 1) * step_right + max([panel_width, *(ends if slanted else [])])
        return cls(
            heads=heads, rows=rows, columns=columns, title=printable(title), cell=cell, font=font, slanted=slanted,
            left=left, top=top, across=across, step_right=step_right, step_down=step_down,
            width=ceil(MARGIN + max(right, left + LEGEND_WIDTH, MARGIN + text_width(title) * TITLE_SIZE)),
            height=ceil(top + down * step_down + SMALL_SIZE + MARGIN),
        )  # fmt: skip


def _checked(weights: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
    """The weights as (N, L, M), N = 1 for one matrix."""
    shape, expected = weights.shape, (len(rows), len(columns))
    if weights.ndim not in (2, 3) or shape[-2:] != expected:
        raise DataError(
            f"attention weights of shape {shape} do not fit {len(rows)} row and {len(columns)} column tokens: "
            f"their shape must be {expected} or (heads, {len(rows)}, {len(columns)})"
        )
    if not weights.size:
        raise DataError(f"attention weights of shape {shape} leave nothing to draw")
    if not (weights.min() >= -1e-3 and weights.max() <= 1 + 1e-3):  # put this way round, NaN fails too
        raise DataError(
            f"attention weights must lie in 0..1; these run from {weights.min():.3g} to {weights.max():.3g}",
            "draw the weights after the softmax, not the scores before it",
        )
    return weights.reshape(-1, *expected).clip(0, 1)


def _opening(page: _Page) -> list[str]:
    of_heads = f" in each of {page.heads} heads" if page.heads > 1 else ""
    size = f'width="{_px(page.width)}" height="{_px(page.height)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_px(page.width)} {_px(page.height)}" '
        f'role="img" class="pellucid-attention" font-family="{FONTS}" fill="{INK}">',
        f"<title>{escape(page.title or 'Attention weights')}</title>",
        f"<desc>How much each row attends to each column{of_heads}, from 0 (light) to 1 (dark). "
        f"Rows: {escape(' '.join(page.rows))}. Columns: {escape(' '.join(page.columns))}.</desc>",
        f"<style>.pellucid-attention .cells rect:hover {{ stroke: {INK} }}</style>",
        f'<rect {size} fill="{PAPER}"/>',
    ]
    if page.title:
        lines.append(_text(page.title, MARGIN, MARGIN + 0.8 * TITLE_SIZE, TITLE_SIZE, 'font-weight="600"'))
    return lines


def _panel(page: _Page, number: int, weights: np.ndarray) -> Iterator[str]:
    """One head: labels where it stands at the left or at the top, its cells, and its number below."""
    down, across = divmod(number, page.across)
    x, y = page.left + across * page.step_right, page.top + down * page.step_down
    if across == 0:
        yield from _row_labels(page, x - 6, y)
    if down == 0:
        yield from _column_labels(page, x, y - 5)
    width, height = len(page.columns) * page.cell, len(page.rows) * page.cell
    yield f'<rect x="{_px(x)}" y="{_px(y)}" width="{_px(width)}" height="{_px(height)}" fill="{EMPTY}"/>'
    yield f'<g class="cells" fill="{HUE}" stroke="{PAPER}" stroke-width="{0.5 if page.cell < 12 else 1}">'
    yield from _cells(page, weights, x, y)
    yield "</g>"
    if page.heads > 1:
        caption = f'text-anchor="middle" fill="{FAINT_INK}"'
        yield _text(f"head {number}", x + width / 2, y + height + SMALL_SIZE + 4, SMALL_SIZE, caption)


def _cells(page: _Page, weights: np.ndarray, x: float, y: float) -> Iterator[str]:
    size = f'width="{_px(page.cell)}" height="{_px(page.cell)}"'
    for i, row in enumerate(page.rows):
        for j, column in enumerate(page.columns):
            place = f'x="{_px(x + j * page.cell)}" y="{_px(y + i * page.cell)}"'
            name = escape(f"{row} → {column}: {weights[i, j]:.3f}")
            yield f'<rect {place} {size} fill-opacity="{weights[i, j]:.3f}"><title>{name}</title></rect>'


def _row_labels(page: _Page, x: float, y: float) -> Iterator[str]:
    for i, label in enumerate(page.rows):
        middle = y + (i + 0.5) * page.cell + 0.35 * page.font
        yield _text(_short(label), x, middle, page.font, 'text-anchor="end"')


def _column_labels(page: _Page, x: float, y: float) -> Iterator[str]:
    for j, label in enumerate(page.columns):
        middle = x + (j + 0.5) * page.cell + (0.3 * page.font if page.slanted else 0)
        turn = f'transform="rotate(-45 {_px(middle)} {_px(y)})"' if page.slanted else 'text-anchor="middle"'
        yield _text(_short(label), middle, y, page.font, turn)


def _legend(page: _Page) -> Iterator[str]:
    x, y, end = page.left + 12, page.height - MARGIN - SMALL_SIZE, page.left + 12 + LEGEND_STEPS * 11
    yield f'<rect x="{_px(x)}" y="{_px(y)}" width="{_px(end - x)}" height="12" fill="{EMPTY}"/>'
    for step in range(LEGEND_STEPS):
        fill = f'fill="{HUE}" fill-opacity="{step / (LEGEND_STEPS - 1):.1f}"'
        yield f'<rect x="{_px(x + step * 11)}" y="{_px(y)}" width="11" height="12" {fill}/>'
    for note, place in (("0", page.left), ("1", end + 5), ("attention weight", end + 22)):
        yield _text(note, place, y + 10, SMALL_SIZE, f'fill="{FAINT_INK}"')


def _text(text: str, x: float, y: float, size: float, attributes: str) -> str:
    return f'<text x="{_px(x)}" y="{_px(y)}" font-size="{_px(size)}" {attributes}>{escape(text)}</text>'


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _px(length: float) -> str:
    """A length to a tenth of a pixel, without a needless zero."""
    return f"{length:.1f}".removesuffix(".0")
