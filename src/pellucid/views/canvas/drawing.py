"""A picture as shapes at places, lengths in pixels of 1/96 inch, x to the right and y down; no file format."""

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError

Pixels = npt.NDArray[np.uint8]
Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]

MILLIMETRE = 96 / 25.4
COLUMN, PAGE = 84 * MILLIMETRE, 174 * MILLIMETRE
"""The width of one column, and of both, in most two-column journals."""


def picture_width(width: str | float | None) -> float | None:
    """A width in pixels: of "column" or "page" of a journal, or of millimetres; None stays None.

    Raises DataError for another one.
    """
    named = {"column": COLUMN, "page": PAGE}
    if width is None or (isinstance(width, str) and width in named):
        return None if width is None else named[str(width)]
    try:
        millimetres = float(width)
    except ValueError:
        millimetres = 0.0
    if not 10 <= millimetres <= 2_000:
        raise DataError(
            f"`width` ({width}) must be column, page, or a number of millimetres in 10..2000", "column is 84 mm"
        )
    return millimetres * MILLIMETRE


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    stroke: str = "none"
    stroke_width: float = 1.0
    radius: float = 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; or, with four of them and `curved`, the Bézier curve that they control."""

    points: tuple[Point, ...]
    stroke: str
    width: float = 1.0
    opacity: float = 1.0
    dashed: bool = False
    curved: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """A circle."""

    x: float
    y: float
    radius: float
    fill: str = "none"
    stroke: str = "none"
    stroke_width: float = 1.0


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text on its baseline, turned by `turn` degrees, counted as clocks go, around its place."""

    text: str
    x: float
    y: float
    size: float
    anchor: Anchor = "start"
    fill: str = "#1b2330"
    bold: bool = False
    turn: float = 0.0


@dataclass(frozen=True, slots=True)
class Raster:
    """An image of (rows, columns, 3), each pixel an even rectangle."""

    x: float
    y: float
    width: float
    height: float
    pixels: Pixels


Shape = Box | Line | Dot | Label | Raster


@dataclass(slots=True)
class Drawing:
    """A page of shapes, the later ones above the earlier ones."""

    title: str
    """What it is, in a line."""
    description: str = ""
    """What is to be seen, for who cannot see it."""
    shapes: list[Shape] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0
    shown_width: float | None = None
    """How wide it is to appear, where that is not its own width."""

    def add(self, *shapes: Shape) -> Self:
        """Puts shapes on top."""
        self.shapes.extend(shapes)
        return self

    def put(self, other: "Drawing", x: float, y: float) -> Self:
        """Puts all shapes of another drawing at a place of this one."""
        return self.add(*(moved(shape, x, y) for shape in other.shapes))


def moved(shape: Shape, x: float, y: float) -> Shape:
    """The shape, `x` further to the right and `y` further down."""
    if isinstance(shape, Line):
        return replace(shape, points=tuple((px + x, py + y) for px, py in shape.points))
    return replace(shape, x=shape.x + x, y=shape.y + y)
