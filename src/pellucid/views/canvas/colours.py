"""Numbers as colours: one scale from nothing to all, one from less to more, and a colour a head."""

import numpy as np
import numpy.typing as npt

from pellucid.views.canvas.drawing import Pixels

INK, FAINT_INK, RULE, PAPER = "#1b2330", "#5b6675", "#c9d0da", "#ffffff"
# Mixed with a light ground, which sRGB does in nearly even steps of lightness, this blue runs from 0 to 1 evenly.
HUE, EMPTY = "#123f8c", "#eef1f6"
MORE, LESS, NEITHER = "#123f8c", "#a34700", "#f6f6f6"
GOLD = "#d99a00"
MASKED, HATCH = "#ffffff", "#cdd3dc"

HEAD_COLOURS = (
    "#1b63bd", "#d87e1b", "#6c2400", "#2d99f3", "#99515a", "#2d3675", "#a275a2", "#d80000",
    "#9909fc", "#5a5187", "#901b48", "#75996c", "#3f09cf", "#fc3fe1", "#6c09a2", "#756399",
)  # fmt: skip
"""Those of the viewer on a light ground (viewer/show/colours.js), chosen far apart for all kinds of eyes."""


def head_colour(head: int) -> str:
    """The colour of a head; after sixteen they come again."""
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]


def sequential(values: npt.ArrayLike) -> Pixels:
    """Values in 0..1, of any shape, as colours from light to dark: (...) -> (..., 3)."""
    return _mixed(np.clip(np.asarray(values, np.float32), 0, 1), EMPTY, HUE)


def diverging(values: npt.ArrayLike) -> Pixels:
    """Values in -1..1 as colours, orange below zero, blue above it: (...) -> (..., 3)."""
    clipped = np.clip(np.asarray(values, np.float32), -1, 1)
    above, below = _mixed(np.maximum(clipped, 0), NEITHER, MORE), _mixed(np.maximum(-clipped, 0), NEITHER, LESS)
    return np.where(clipped[..., None] >= 0, above, below)


def rgb(colour: str) -> npt.NDArray[np.float32]:
    """ "#rrggbb" as three numbers in 0..255."""
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.float32)


def _mixed(amount: npt.NDArray[np.float32], none: str, all_: str) -> Pixels:
    """Looked up in a table of 256 colours: a picture holds no more."""
    steps = np.linspace(0, 1, 256, dtype=np.float32)[:, None]
    table = np.rint(rgb(none) + steps * (rgb(all_) - rgb(none))).astype(np.uint8)
    return table[np.rint(amount * 255).astype(np.uint8)]


def hatched(pixels: Pixels, mask: npt.NDArray[np.bool_] | None, longest: int = 1024) -> Pixels:
    """Cells (L, M, 3) with those that may not be attended to hatched, which no weight looks like.

    Each cell becomes several pixels, so that the lines show, as long as no side is beyond `longest` pixels.
    """
    if mask is None or mask.all():
        return pixels
    zoom = max(1, min(12, longest // max(pixels.shape[:2])))
    pixels = pixels.repeat(zoom, 0).repeat(zoom, 1)
    allowed = mask.repeat(zoom, 0).repeat(zoom, 1)
    lines = np.add.outer(np.arange(len(allowed)), np.arange(allowed.shape[1])) % 4 == 0
    pattern = np.where(lines[..., None], rgb(HATCH), rgb(MASKED)).astype(np.uint8)
    return np.where(allowed[..., None], pixels, pattern)
