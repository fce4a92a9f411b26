"""Renders shapes as PNG with matplotlib (the extra `plot`), which has fonts and renders every script."""

import unicodedata
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from io import BytesIO
from threading import Lock
from typing import Any

from pellucid.errors import ConfigError, DataError, format_install_command
from pellucid.views.canvas.colours import PAPER
from pellucid.views.canvas.shapes import Dot, Label, Line, Raster, Shape
from pellucid.views.canvas.text import ISOLATES, printable

DOTS_PER_INCH = 96
POINTS_PER_PIXEL = 72 / DOTS_PER_INCH
LARGEST_SIDE = 2**16 - 1
# For each script the fonts of Linux, Windows and macOS; installed ones are tried in this order.
FONTS = (
    "Noto Sans", "Segoe UI", "Helvetica Neue", "Arial", "DejaVu Sans",
    "Noto Sans CJK KR", "Noto Sans KR", "NanumGothic", "Malgun Gothic", "Apple SD Gothic Neo", "AppleGothic",
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "Microsoft YaHei", "PingFang SC",
    "Noto Sans CJK JP", "Noto Sans JP", "Yu Gothic", "Hiragino Sans",
    "Noto Sans Arabic", "Noto Naskh Arabic", "Geeza Pro", "Noto Sans Hebrew", "Noto Sans Devanagari", "Mangal",
    "Kohinoor Devanagari", "Noto Sans Thai", "Leelawadee UI", "Noto Emoji", "Segoe UI Emoji", "Noto Sans Symbols2",
    "Segoe UI Symbol", "Unifont",
)  # fmt: skip

# matplotlib is not thread-safe, nor is catching its warnings.
_painting = Lock()


def to_png(
    shapes: Sequence[Shape], width: float, height: float, scale: float = 2.0, shown_width: float | None = None
) -> bytes:
    """Returns the bytes of a file with these shapes, `scale` dots per pixel. Warns of characters that no font has.

    Raises ConfigError without matplotlib, DataError for a scale that is not above 0 or makes the picture too large.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"PNG needs matplotlib, which cannot be imported ({error})",
            f"{format_install_command('plot')}, or write .svg, which does not require it",
        ) from error
    if not scale > 0:
        raise DataError(f"`scale` ({scale}) must be above 0", "2 suits most screens, 4 suits print")
    scale *= (shown_width or width) / width
    if max(width, height) * scale > LARGEST_SIDE:
        raise DataError(
            f"a picture of {width * scale:,.0f} x {height * scale:,.0f} dots is too large; at most {LARGEST_SIDE:,} "
            "per side",
            "choose a smaller `scale`, or write .svg",
        )
    with _painting:
        png, missing = _paint_shapes(shapes, width, height, scale)
        if missing.glyphs and _learn_new_fonts():
            png, missing = _paint_shapes(shapes, width, height, scale)
    missing.tell()
    return png


def _paint_shapes(shapes: Sequence[Shape], width: float, height: float, scale: float) -> tuple[bytes, "_Missing"]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    inches = (width / DOTS_PER_INCH, height / DOTS_PER_INCH)
    out, missing = BytesIO(), _Missing()
    figure = Figure(figsize=inches, dpi=DOTS_PER_INCH * scale, facecolor=PAPER)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for order, shape in enumerate(shapes):
        _paint(axes, shape, order)
    with missing:
        canvas.print_png(out, metadata={"Software": None})
    return out.getvalue(), missing


def _spell(text: str) -> str:
    """Returns a label; for combining marks alone their code points, since fonts require a letter with them."""
    marks = text.removeprefix("·")
    if not marks or not all(unicodedata.category(character).startswith("M") for character in marks):
        return text
    return text.removesuffix(marks) + " ".join(f"U+{ord(character):04X}" for character in marks)


def _learn_new_fonts() -> bool:
    """Registers fonts with matplotlib that were installed after it made its list; returns True if there are any."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {font.fname for font in fontManager.ttflist}
    is_new = False
    for path in sorted(set(findSystemFonts()) - known):
        with suppress(Exception):  # not a valid font file
            fontManager.addfont(path)
            is_new = True
    if is_new:
        list_installed_fonts.cache_clear()
    return is_new


def _paint(axes: Any, shape: Shape, order: int) -> None:
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, FancyBboxPatch, PathPatch, Rectangle
    from matplotlib.path import Path

    if isinstance(shape, Raster):
        image = AxesImage(axes, interpolation="nearest", origin="upper", zorder=order, resample=False)
        image.set_data(shape.pixels)
        image.set_extent((shape.x, shape.x + shape.width, shape.y + shape.height, shape.y))
        axes.add_image(image)
    elif isinstance(shape, Label):
        axes.text(
            shape.x, shape.y, _spell(ISOLATES.sub("", printable(shape.text))), color=shape.fill, zorder=order,
            fontsize=shape.size * POINTS_PER_PIXEL,
            ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor], va="baseline",
            rotation=-shape.turn, rotation_mode="anchor", parse_math=False,
            family=list_installed_fonts(shape.bold)[: 1 if shape.text.isascii() else None],
            weight="bold" if shape.bold else "normal",
        )  # fmt: skip
    elif isinstance(shape, Line) and shape.curved:
        path = Path(shape.points, [Path.MOVETO, *([Path.CURVE4] * 3)])
        axes.add_artist(
            PathPatch(path, fill=False, ec=shape.stroke, alpha=shape.opacity, **_stroke(shape.width, order))
        )
    elif isinstance(shape, Line):
        xs, ys = zip(*shape.points, strict=True)
        style: Any = (0, (3, 2)) if shape.dashed else "-"
        options = _stroke(shape.width, order)
        axes.add_artist(Line2D(xs, ys, color=shape.stroke, alpha=shape.opacity, ls=style, **options))
    elif isinstance(shape, Dot):
        circle = Circle((shape.x, shape.y), shape.radius, fc=shape.fill, ec=shape.stroke)
        axes.add_artist(_stroke_patch(circle, shape.stroke_width, order))
    elif shape.radius:
        style = f"round,pad=0,rounding_size={shape.radius}"
        box = FancyBboxPatch((shape.x, shape.y), shape.width, shape.height, style, fc=shape.fill, ec=shape.stroke)
        axes.add_artist(_stroke_patch(box, shape.stroke_width, order))
    else:
        rectangle = Rectangle((shape.x, shape.y), shape.width, shape.height, fc=shape.fill, ec=shape.stroke)
        axes.add_artist(_stroke_patch(rectangle, shape.stroke_width, order))


def _stroke(width: float, order: int) -> dict[str, Any]:
    return {"lw": width * POINTS_PER_PIXEL, "zorder": order}


def _stroke_patch(patch: Any, width: float, order: int) -> Any:
    patch.set(**_stroke(width, order))
    return patch


@cache
def list_installed_fonts(bold: bool = False) -> list[str]:
    """Returns the names in FONTS that matplotlib finds in this weight; always includes DejaVu Sans, which it ships."""
    from matplotlib.font_manager import fontManager

    weights = ("bold", 700) if bold else ("normal", "regular", "book", 400)
    there = {font.name for font in fontManager.ttflist if font.weight in weights and font.style == "normal"}
    return [name for name in FONTS if name in there]


class _Missing:
    """Collects matplotlib's warnings about characters that no font has, one per character, and merges them into one."""

    def __enter__(self) -> None:
        self._catcher = warnings.catch_warnings(record=True)
        self._caught = self._catcher.__enter__()
        warnings.simplefilter("always")

    def __exit__(self, *error: Any) -> None:
        self._catcher.__exit__(*error)

    @property
    def glyphs(self) -> list[str]:
        """Returns the code points of the characters."""
        return sorted({str(w.message).split(" ")[1] for w in self._caught if "missing from font" in str(w.message)})

    def tell(self) -> None:
        """Warns once about all characters, and repeats all other warnings unchanged."""
        glyphs = self.glyphs
        for other in self._caught:
            if "missing from font" not in str(other.message):
                warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
        if glyphs:
            shown = ", ".join(f"U+{int(code):04X}" for code in glyphs[:8])
            warnings.warn(
                f"no installed font has {len(glyphs)} of the picture's characters ({shown}); they are drawn as boxes: "
                "install a font with them, such as Noto Sans CJK",
                stacklevel=4,
            )
