"""Converts numbers to colors: a sequential scale, a diverging scale, and a color per head."""

import numpy as np
import numpy.typing as npt

from pellucid.views.canvas.shapes import Pixels

INK, FAINT_INK, RULE, PAPER = "#1b2330", "#5b6675", "#c9d0da", "#ffffff"
# Mixed with a light background, in sRGB, this blue gives nearly even steps of lightness from 0 to 1.
HUE, EMPTY = "#123f8c", "#eef1f6"
MORE, LESS, NEITHER = "#123f8c", "#a34700", "#f6f6f6"
GOLD = "#d99a00"
MASKED, HATCH = "#ffffff", "#cdd3dc"

HEAD_COLOURS = (
    "#1b63bd", "#d87e1b", "#6c2400", "#2d99f3", "#99515a", "#2d3675", "#a275a2", "#d80000",
    "#9909fc", "#5a5187", "#901b48", "#75996c", "#3f09cf", "#fc3fe1", "#6c09a2", "#756399",
)  # fmt: skip
"""The viewer's colors on a light background (viewer/show/colours.js), distinguishable in all kinds of color vision."""


def head_colour(head: int) -> str:
    """Returns the color of a head; the colors repeat after sixteen heads."""
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]


def sequential(values: npt.ArrayLike) -> Pixels:
    """Converts values in 0..1, of any shape, to colors from light to dark: (...) -> (..., 3)."""
    return _mix(np.clip(np.asarray(values, np.float32), 0, 1), EMPTY, HUE)


def shade(value: float) -> str:
    """Returns the color of a single value in 0..1 as "#rrggbb"."""
    red, green, blue = (int(part) for part in sequential([value])[0])
    return f"#{red:02x}{green:02x}{blue:02x}"


def map_diverging_colours(values: npt.ArrayLike) -> Pixels:
    """Converts values in -1..1 to colors, orange below zero, blue above it: (...) -> (..., 3)."""
    clipped = np.clip(np.asarray(values, np.float32), -1, 1)
    above, below = _mix(np.maximum(clipped, 0), NEITHER, MORE), _mix(np.maximum(-clipped, 0), NEITHER, LESS)
    return np.where(clipped[..., None] >= 0, above, below)


def rgb(colour: str) -> npt.NDArray[np.float32]:
    """Parses "#rrggbb" into three numbers in 0..255."""
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.float32)


def _mix(amount: npt.NDArray[np.float32], none: str, all_: str) -> Pixels:
    """Mixes two colors by a table of 256 steps, the precision of a picture."""
    steps = np.linspace(0, 1, 256, dtype=np.float32)[:, None]
    table = np.rint(rgb(none) + steps * (rgb(all_) - rgb(none))).astype(np.uint8)
    return table[np.rint(amount * 255).astype(np.uint8)]


def hatch_masked(pixels: Pixels, mask: npt.NDArray[np.bool_] | None, longest: int = 1024) -> Pixels:
    """Hatches the masked cells of (L, M, 3), so that they differ from every weight.

    Each cell is enlarged to several pixels, so that the lines are visible, unless a side would exceed `longest` pixels.
    """
    if mask is None or mask.all():
        return pixels
    zoom = max(1, min(12, longest // max(pixels.shape[:2])))
    pixels = pixels.repeat(zoom, 0).repeat(zoom, 1)
    allowed = mask.repeat(zoom, 0).repeat(zoom, 1)
    lines = np.add.outer(np.arange(len(allowed)), np.arange(allowed.shape[1])) % 4 == 0
    pattern = np.where(lines[..., None], rgb(HATCH), rgb(MASKED)).astype(np.uint8)
    return np.where(allowed[..., None], pixels, pattern)


def make_masked_swatch() -> Pixels:
    """Returns an image of a masked cell, for a legend."""
    return hatch_masked(np.zeros((1, 1, 3), np.uint8), np.zeros((1, 1), np.bool_))
