"""Writes shapes as SVG: text remains text, a heat map is one embedded image, without external resources or scripts."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable
from html import escape as escape_markup

import numpy as np

from pellucid.views.canvas.colours import INK, PAPER
from pellucid.views.canvas.shapes import Box, Dot, Label, Line, Pixels, Raster, Shape
from pellucid.views.canvas.text import printable

FONTS = "'Noto Sans', system-ui, 'Noto Sans CJK KR', 'Noto Sans Arabic', sans-serif"


def to_svg(
    shapes: Iterable[Shape],
    title: str,
    description: str,
    width: float,
    height: float,
    shown_width: float | None = None,
) -> str:
    """Returns the text of a file with these shapes on a background of that size. Equal shapes give equal text."""
    scale = 1.0 if shown_width is None else shown_width / width
    size = f'width="{_px(width * scale)}" height="{_px(height * scale)}"'
    ground = Box(0, 0, width, height, PAPER)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_px(width)} {_px(height)}" '
        f'role="img" font-family="{FONTS}">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(description)}</desc>",
        *map(_element, [ground, *shapes]),
        "</svg>\n",
    ]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Returns a text escaped for XML, without characters that XML does not allow."""
    return escape_markup(printable(text))


def png_file(pixels: Pixels) -> bytes:
    """Returns an image (height, width, 3) as a PNG file: 8 bits per channel, no filter, no time or name in it.

    W3C, Portable Network Graphics, third edition, sections 5.3 (chunks) and 9 (filters).
    """
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row begins with its filter: 0, none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _element(shape: Shape) -> str:
    if isinstance(shape, Box):
        radius = f' rx="{_px(shape.radius)}"' if shape.radius else ""
        place = f'x="{_px(shape.x)}" y="{_px(shape.y)}" width="{_px(shape.width)}" height="{_px(shape.height)}"'
        return f"<rect {place}{radius} {_paint(shape)}/>"
    if isinstance(shape, Dot):
        return f'<circle cx="{_px(shape.x)}" cy="{_px(shape.y)}" r="{_px(shape.radius)}" {_paint(shape)}/>'
    if isinstance(shape, Line):
        return _line(shape)
    return _text(shape) if isinstance(shape, Label) else _image(shape)


def _paint(shape: Box | Dot) -> str:
    if shape.stroke == "none":
        return f'fill="{shape.fill}"'
    return f'fill="{shape.fill}" stroke="{shape.stroke}" stroke-width="{_px(shape.stroke_width)}"'


def _line(line: Line) -> str:
    first, *others = (f"{_px(x)} {_px(y)}" for x, y in line.points)
    path = f"M{first}{'C' if line.curved else 'L'}{' '.join(others)}"
    opacity = f' stroke-opacity="{line.opacity:.3f}"' if line.opacity < 1 else ""
    dashes = f' stroke-dasharray="{_px(3 * line.width)} {_px(2 * line.width)}"' if line.dashed else ""
    stroke = f'stroke="{line.stroke}" stroke-width="{_px(line.width)}"{opacity}{dashes}'
    return f'<path d="{path}" fill="none" {stroke}/>'


def _text(label: Label) -> str:
    parts = [f'x="{_px(label.x)}" y="{_px(label.y)}" font-size="{_px(label.size)}" fill="{label.fill or INK}"']
    if label.anchor != "start":
        parts.append(f'text-anchor="{label.anchor}"')
    if label.bold:
        parts.append('font-weight="600"')
    if label.turn:
        parts.append(f'transform="rotate({_px(label.turn)} {_px(label.x)} {_px(label.y)})"')
    if not label.text.isascii():
        parts.append('unicode-bidi="isolate"')
    return f"<text {' '.join(parts)}>{escape(label.text)}</text>"


def _image(raster: Raster) -> str:
    place = f'x="{_px(raster.x)}" y="{_px(raster.y)}" width="{_px(raster.width)}" height="{_px(raster.height)}"'
    data = b64encode(png_file(raster.pixels)).decode()
    style = 'preserveAspectRatio="none" style="image-rendering: pixelated"'
    return f'<image {place} {style} href="data:image/png;base64,{data}"/>'


def _px(length: float) -> str:
    """Returns a length to a hundredth of a pixel, without trailing zeros."""
    return f"{length:.2f}".rstrip("0").rstrip(".")
