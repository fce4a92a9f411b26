"""Holds a still picture: shapes on a page, with writers of SVG and PNG and a representation for notebooks.

This package is the drawing engine of all still pictures. Reading order: shapes and text, this module, the two writers
svg and png; then colours, grid and chart, the building blocks of pictures.
"""

import warnings
from base64 import b64encode
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any, Self

from pellucid.errors import DataError
from pellucid.files.writing import write_output
from pellucid.views.canvas.colours import FAINT_INK, INK
from pellucid.views.canvas.png import to_png
from pellucid.views.canvas.shapes import Label, Shape, bounds, shift_shape
from pellucid.views.canvas.svg import to_svg
from pellucid.views.canvas.text import text_width

MARGIN, TITLE_SIZE, SMALL_SIZE = 12.0, 13.0, 10.0
MILLIMETRE = 96 / 25.4
COLUMN, PAGE = 84 * MILLIMETRE, 174 * MILLIMETRE
"""The width of one column, and of both, in most two-column journals."""


def picture_width(width: str | float | None) -> float | None:
    """Returns a width in pixels, of "column" or "page" of a journal or of millimeters; None stays None.

    Raises DataError for any other value.
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


@dataclass(slots=True, repr=False)
class Drawing:
    """Holds shapes, the later ones above the earlier ones."""

    title: str
    """A line that describes the picture."""
    description: str = ""
    """Its content in words, for readers who cannot see it."""
    shapes: list[Shape] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0
    shown_width: float | None = None
    """The width at which the picture is shown, if it differs from its size."""

    def add(self, *shapes: Shape) -> Self:
        """Adds shapes on top."""
        self.shapes.extend(shapes)
        return self

    def add_heading(self, title: str, note: str, width: float) -> float:
        """Adds title and note at the top, broken into lines; returns their lower end."""
        y = MARGIN
        for text, size, fill, bold in ((title, TITLE_SIZE, INK, True), (note, SMALL_SIZE, FAINT_INK, False)):
            for line in _wrap(text, (width - 2 * MARGIN) / size):
                y += size * 1.3
                self.add(Label(line, MARGIN, y - 0.3 * size, size, fill=fill, bold=bold))
        return y + 4

    def finish(self, widest_shown: float | None) -> Self:
        """Sets the size, with a margin around all shapes; a picture wider than `widest_shown` is scaled down."""
        left, top, right, bottom = bounds(self.shapes)
        shift = max(0.0, MARGIN / 2 - left)
        self.shapes = [shift_shape(shape, shift, max(0.0, MARGIN / 2 - top)) for shape in self.shapes]
        self.width, self.height = ceil(right + shift + MARGIN), ceil(bottom + MARGIN)
        self.shown_width = widest_shown if widest_shown and widest_shown < self.width else None
        return self

    def as_svg(self) -> str:
        """Returns the text of an SVG file. Equal drawings give equal text."""
        return to_svg(self.shapes, self.title, self.description, self.width, self.height, self.shown_width)

    def as_png(self, scale: float = 2.0) -> bytes:
        """Returns the bytes of a PNG file. Raises the errors of `png`."""
        return to_png(self.shapes, self.width, self.height, scale, self.shown_width)

    def svg(self, path: str | Path) -> None:
        """Writes a picture for a paper: text remains text, and no library is required."""
        write_output(path, self.as_svg())

    def png(self, path: str | Path, scale: float = 2) -> None:
        """Writes a picture of `scale` dots per pixel of 1/96 inch.

        Raises ConfigError without the extra `plot`, DataError for a scale that makes the picture too large or empty.
        """
        write_output(path, self.as_png(scale))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Returns the representations for a notebook: an image, and a line of text."""
        bundle = {"text/plain": f"{self.title}. {self.description}"}
        if find_spec("matplotlib") is not None:
            with warnings.catch_warnings(record=True) as lacking:
                warnings.simplefilter("always")
                png = self.as_png(1.5)
            if not lacking:
                return bundle | {"image/png": b64encode(png).decode()}
        # If no font here has all of its characters, the reader's browser may have one.
        return bundle | {"image/svg+xml": self.as_svg()}

    def __repr__(self) -> str:
        return f"<pellucid picture: {self.title}>"


def _wrap(text: str, width: float) -> list[str]:
    """Breaks a text at spaces into lines of at most `width` font sizes."""
    lines: list[str] = []
    for word in text.split(" ") if text else []:
        if lines and text_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
