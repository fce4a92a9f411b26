"""How far shapes reach: texts by a guess of their length, which is rather too long."""

from collections.abc import Iterable
from math import cos, radians, sin

from pellucid.views.canvas.drawing import Box, Dot, Label, Line, Raster, Shape
from pellucid.views.canvas.text import text_width

Extent = tuple[float, float, float, float]
"""Left, top, right and bottom."""

ASCENT, DESCENT = 0.8, 0.25
"""Of a text above and below its baseline, in units of its font size."""


def bounds(shapes: Iterable[Shape]) -> Extent:
    """The least extent around all shapes."""
    lefts, tops, rights, bottoms = zip(*map(extent, shapes), strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def extent(shape: Shape) -> Extent:
    """The place that a shape takes."""
    if isinstance(shape, Box | Raster):
        return shape.x, shape.y, shape.x + shape.width, shape.y + shape.height
    if isinstance(shape, Line):
        xs, ys = zip(*shape.points, strict=True)
        return min(xs), min(ys), max(xs), max(ys)
    if isinstance(shape, Dot):
        return shape.x - shape.radius, shape.y - shape.radius, shape.x + shape.radius, shape.y + shape.radius
    return _of_text(shape)


def _of_text(label: Label) -> Extent:
    length = text_width(label.text) * label.size
    start = -length * {"start": 0.0, "middle": 0.5, "end": 1.0}[label.anchor]
    across, down = cos(radians(label.turn)), sin(radians(label.turn))
    corners = [(x, y) for x in (start, start + length) for y in (-ASCENT * label.size, DESCENT * label.size)]
    xs = [label.x + x * across - y * down for x, y in corners]
    ys = [label.y + x * down + y * across for x, y in corners]
    return min(xs), min(ys), max(xs), max(ys)
