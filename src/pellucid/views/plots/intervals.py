"""Draws means with their intervals, one per line, and the single values of each mean."""

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.views.canvas.chart import round_ticks, tick_text
from pellucid.views.canvas.colours import FAINT_INK, INK, RULE, head_colour
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing, picture_width
from pellucid.views.canvas.shapes import Dot, Label, Line
from pellucid.views.canvas.text import text_width

ROW = 22.0
MOST_NAME = 0.45
"""The largest share of the page's width for names."""


@dataclass(frozen=True)
class IntervalRow:
    """A line of the picture."""

    name: str
    values: tuple[float, ...]
    """One per seed; drawn as rings."""
    mean: float
    half_width: float | None
    """None: no interval is drawn."""


def plot_intervals(
    rows: Sequence[IntervalRow], *, title: str, unit: str, note: str = "", width: str | float | None = None
) -> Drawing:
    """Draws a line for each row, from the top: single values as rings, the mean as a dot, its interval as a bar.

    Args:
        rows: at least one.
        unit: the unit of the horizontal axis.
        note: a line below the title.
    """
    shown = picture_width(width)
    page = shown or PAGE
    said = [
        f"{row.name} {row.mean:.4g}" + (f" ± {row.half_width:.2g}" if row.half_width is not None else "")
        for row in rows
    ]
    drawing = Drawing(title, f"Means by setting, in {unit}. {'; '.join(said)}.")
    top = drawing.add_heading(title, note, page) + 6
    room = MOST_NAME * page
    names = [_shorten(row.name, room / SMALL_SIZE) for row in rows]
    left = MARGIN + min(room, max(text_width(name) for name in names) * SMALL_SIZE) + 12
    right, bottom = page - MARGIN - 8, top + ROW * len(rows) + 4
    ends = [end for row in rows for end in (row.mean - (row.half_width or 0), row.mean + (row.half_width or 0))]
    ends += [value for row in rows for value in row.values]
    low, high = min(ends), max(ends)
    space = 0.06 * (high - low) or abs(low) * 0.05 or 0.5
    low, high = low - space, high + space

    def to_x(value: float) -> float:
        return left + (right - left) * (value - low) / (high - low)

    for tick in round_ticks(low, high, max(2, int((right - left) // 80))):
        x = to_x(tick)
        drawing.add(Line(((x, top), (x, bottom)), "#e6eaf0", 0.75))
        drawing.add(Label(tick_text(tick), x, bottom + 14, SMALL_SIZE, "middle", FAINT_INK))
    drawing.add(Line(((left, bottom), (right, bottom)), RULE))
    drawing.add(Label(unit, right, bottom + 28, SMALL_SIZE, "end", FAINT_INK))
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = top + ROW * (number + 0.5)
        drawing.add(Label(name, left - 10, y + 3.5, SMALL_SIZE, "end", INK))
        if row.half_width is not None:
            a, b = to_x(row.mean - row.half_width), to_x(row.mean + row.half_width)
            drawing.add(Line(((a, y), (b, y)), head_colour(0), 1.5))
            drawing.add(*(Line(((end, y - 4), (end, y + 4)), head_colour(0), 1.5) for end in (a, b)))
        drawing.add(*(Dot(to_x(value), y, 2.6, "none", FAINT_INK, 0.9) for value in row.values))
        drawing.add(Dot(to_x(row.mean), y, 3.4, head_colour(0)))
    return drawing.finish(shown)


def _shorten(name: str, most: float) -> str:
    """Returns a name of at most `most` font sizes, with its middle cut out."""
    if text_width(name) <= most:
        return name
    kept = len(name)
    while kept > 4 and text_width(name[: kept // 2] + "…" + name[-(kept // 2) :]) > most:
        kept -= 2
    return name[: kept // 2] + "…" + name[-(kept // 2) :]
