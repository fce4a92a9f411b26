"""Draws line charts: axes at round numbers with their units, and a legend that names each line."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
import numpy.typing as npt

from pellucid.views.canvas.colours import FAINT_INK, INK, RULE, head_colour
from pellucid.views.canvas.drawing import SMALL_SIZE, Drawing
from pellucid.views.canvas.shapes import Box, Dot, Label, Line
from pellucid.views.canvas.text import text_width

PLOT_HEIGHT = 150.0
LEFT, BELOW, ABOVE, RIGHT = 52.0, 36.0, 24.0, 12.0
MOST_POINTS = 1_500
"""The largest number of points of a line: a page is no more pixels wide."""


@dataclass(frozen=True, slots=True)
class Series:
    """Holds a line: x and y values, both (P,), in the order of x."""

    name: str
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    dots: bool = False
    """True if the points are marked: for a few points that each matter."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Holds a chart: its lines between two axes."""

    title: str
    across: str
    """The unit of the horizontal axis."""
    lines: tuple[Series, ...]
    logarithmic: bool = False
    """True if the vertical axis is logarithmic."""
    from_zero: bool = False
    logarithmic_across: bool = False
    """True if the horizontal axis is logarithmic."""


def draw_panel(drawing: Drawing, panel: Panel, x: float, y: float, width: float) -> float:
    """Draws a chart with its upper left corner at (x, y); returns its lower end."""
    lines = [_finite(line) for line in panel.lines]
    all_x = np.concatenate([line.x for line in lines])
    all_y = np.concatenate([line.y for line in lines])
    legend = [line.name for line in lines if line.name] if len(lines) > 1 else []
    from_first = all_x.size > 0 and 0 < all_x.min() < 0.2 * all_x.max()  # steps count from 1, their axis from 0
    top = _legend(drawing, legend, x + LEFT, y + ABOVE + 2, width - LEFT) + 4
    spans = _span(all_x, panel.logarithmic_across, from_first), _span(all_y, panel.logarithmic, panel.from_zero)
    area = (x + LEFT, top, width - LEFT - RIGHT, PLOT_HEIGHT)
    plot = _Plot(*area, *spans, panel.logarithmic, panel.logarithmic_across)
    drawing.add(Label(panel.title, x, y + 12, 11.5, fill=INK, bold=True))
    _axes(drawing, plot, panel.across)
    for number, line in enumerate(lines):
        points = tuple((plot.to_x(a), plot.to_y(b)) for a, b in zip(line.x, line.y, strict=True))
        if len(points) > 1:
            drawing.add(Line(points, head_colour(number), 1.5))
        if line.dots or len(points) == 1:
            drawing.add(*(Dot(a, b, 2.4, head_colour(number)) for a, b in points))
    return plot.y + plot.height + BELOW


@dataclass(frozen=True, slots=True)
class _Plot:
    """Holds the area between the axes, and converts numbers to positions in it."""

    x: float
    y: float
    width: float
    height: float
    across: tuple[float, float]
    up: tuple[float, float]
    logarithmic: bool
    logarithmic_across: bool

    def to_x(self, value: float) -> float:
        return self.x + self.width * _part(value, self.across, self.logarithmic_across)

    def to_y(self, value: float) -> float:
        return self.y + self.height * (1 - _part(value, self.up, self.logarithmic))


def _part(value: float, span: tuple[float, float], logarithmic: bool) -> float:
    """Returns the position of a number on an axis, 0 to 1."""
    low, high = span
    if logarithmic:
        low, high, value = log10(low), log10(high), log10(value)
    return (value - low) / (high - low)


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Returns multiples of 1, 2 or 5 times a power of ten within low..high, approximately `about` of them."""
    rough = (high - low) / about
    power = 10.0 ** floor(log10(rough))
    step = min((factor * power for factor in (1, 2, 5, 10)), key=lambda s: abs(s - rough))
    return [round(k * step, 12) for k in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def decade_ticks(low: float, high: float) -> list[float]:
    """Returns powers of ten within low..high; if they are few, numbers between them, too."""
    powers = [10.0**k for k in range(floor(log10(low)), ceil(log10(high)) + 1)]
    within = [p for p in powers if low <= p <= high]
    for factors in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        if len(within) < 3:
            within = [round(f * p, 12) for p in powers for f in factors if low <= f * p <= high]
    return within


def tick_text(value: float) -> str:
    """Returns a number in its shortest form: 0.0004 as 4e-4, 12000 as 12,000."""
    if value == 0:
        return "0"
    if abs(value) < 0.001 or abs(value) >= 1e6:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}".replace("-", "−")
    return f"{value:,.10g}".replace("-", "−")


def _finite(line: Series) -> Series:
    """Removes gaps, and thins a line that has more points than are visible."""
    there = np.isfinite(line.x) & np.isfinite(line.y)
    x, y = line.x[there], line.y[there]
    if len(x) > MOST_POINTS:
        kept = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).round().astype(int))
        x, y = x[kept], y[kept]
    return Series(line.name, x, y, line.dots)


def _span(values: npt.NDArray[np.float64], logarithmic: bool, from_zero: bool) -> tuple[float, float]:
    """Returns the ends of an axis that contains all values."""
    if logarithmic:
        values = values[values > 0]
    if not len(values):
        return (0.1, 1.0) if logarithmic else (0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    if logarithmic:
        return low / 1.15, high * 1.15
    low = min(low, 0.0) if from_zero else low
    if low == high:
        return low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    space = 0.04 * (high - low)
    return low if from_zero else low - space, high + space


def _axes(drawing: Drawing, plot: _Plot, across: str) -> None:
    low, high = plot.up
    for tick in decade_ticks(low, high) if plot.logarithmic else round_ticks(low, high, 4):
        y = plot.to_y(tick)
        drawing.add(Line(((plot.x, y), (plot.x + plot.width, y)), "#e6eaf0", 0.75))
        drawing.add(Label(tick_text(tick), plot.x - 5, y + 3.5, SMALL_SIZE, "end", FAINT_INK))
    bottom = plot.y + plot.height
    places = max(2, int(plot.width // 70))
    for tick in decade_ticks(*plot.across) if plot.logarithmic_across else round_ticks(*plot.across, places):
        x = plot.to_x(tick)
        drawing.add(Line(((x, bottom), (x, bottom + 4)), RULE))
        drawing.add(Label(tick_text(tick), x, bottom + 15, SMALL_SIZE, "middle", FAINT_INK))
    drawing.add(Line(((plot.x, bottom), (plot.x + plot.width, bottom)), FAINT_INK))
    drawing.add(Label(across, plot.x + plot.width, bottom + 28, SMALL_SIZE, "end", FAINT_INK))


def _legend(drawing: Drawing, names: Sequence[str], x: float, y: float, room: float) -> float:
    """Draws the names next to their colors, in as many lines as needed; returns the lower end."""
    left = x
    for number, name in enumerate(names):
        length = 18 + text_width(name) * SMALL_SIZE
        if x > left and x + length > left + room:
            x, y = left, y + 15
        drawing.add(Box(x, y - 6, 14, 3, head_colour(number)), Label(name, x + 18, y, SMALL_SIZE, fill=FAINT_INK))
        x += length + 14
    return y + 9 if names else y - 4
