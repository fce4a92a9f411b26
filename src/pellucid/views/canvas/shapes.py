"""Defines the elements of a drawing: shapes at positions, in pixels of 1/96 inch, x to the right and y down."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import cos, radians, sin
from typing import Literal

import numpy as np
import numpy.typing as npt

from pellucid.views.canvas.text import text_width

Pixels = npt.NDArray[np.uint8]
Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]

Extent = tuple[float, float, float, float]
"""Left, top, right and bottom of a shape's bounding box."""

ASCENT, DESCENT = 0.8, 0.25
"""The reach of a text above and below its baseline, in units of its font size."""


@dataclass(frozen=True, slots=True)
class Box:
    """Is a rectangle."""

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
    """Is a line through points; or, with four of them and `curved`, the Bézier curve that they control."""

    points: tuple[Point, ...]
    stroke: str
    width: float = 1.0
    opacity: float = 1.0
    dashed: bool = False
    curved: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """Is a circle."""

    x: float
    y: float
    radius: float
    fill: str = "none"
    stroke: str = "none"
    stroke_width: float = 1.0


@dataclass(frozen=True, slots=True)
class Label:
    """Is a line of text on its baseline, rotated clockwise by `turn` degrees around its position."""

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
    """Is an image of (rows, columns, 3), each pixel a rectangle of one color."""

    x: float
    y: float
    width: float
    height: float
    pixels: Pixels


Shape = Box | Line | Dot | Label | Raster


def shift_shape(shape: Shape, x: float, y: float) -> Shape:
    """Returns the shape, `x` further to the right and `y` further down."""
    if isinstance(shape, Line):
        return replace(shape, points=tuple((px + x, py + y) for px, py in shape.points))
    return replace(shape, x=shape.x + x, y=shape.y + y)


def bounds(shapes: Iterable[Shape]) -> Extent:
    """Returns the bounding box of all shapes."""
    lefts, tops, rights, bottoms = zip(*map(extent, shapes), strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def extent(shape: Shape) -> Extent:
    """Returns the bounding box of a shape; for text from an estimate of its width, which is rather too large."""
    if isinstance(shape, Box | Raster):
        return shape.x, shape.y, shape.x + shape.width, shape.y + shape.height
    if isinstance(shape, Line):
        xs, ys = zip(*shape.points, strict=True)
        return min(xs), min(ys), max(xs), max(ys)
    if isinstance(shape, Dot):
        return shape.x - shape.radius, shape.y - shape.radius, shape.x + shape.radius, shape.y + shape.radius
    return _measure_text(shape)


def _measure_text(label: Label) -> Extent:
    length = text_width(label.text) * label.size
    start = -length * {"start": 0.0, "middle": 0.5, "end": 1.0}[label.anchor]
    across, down = cos(radians(label.turn)), sin(radians(label.turn))
    corners = [(x, y) for x in (start, start + length) for y in (-ASCENT * label.size, DESCENT * label.size)]
    xs = [label.x + x * across - y * down for x, y in corners]
    ys = [label.y + x * down + y * across for x, y in corners]
    return min(xs), min(ys), max(xs), max(ys)
