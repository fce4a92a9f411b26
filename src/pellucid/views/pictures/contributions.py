"""Draws the contributions view: the contribution of each head and feed-forward network to the logit of a token."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pellucid.errors import DataError
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import FAINT_INK, INK, LESS, MORE, RULE
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing
from pellucid.views.canvas.grid import swatch, widest
from pellucid.views.canvas.shapes import Box, Label, Line
from pellucid.views.canvas.text import isolate_direction, label
from pellucid.views.view_options import ViewOptions
from pellucid.views.words import name_part

if TYPE_CHECKING:
    from pellucid.analysis.contributions import LogitAttribution, LogitComponent

FONT, LINE, BAR = 10.0, 15.0, 9.0
MOST_BARS = 30
"""The largest number of bars; smaller parts are summed."""
NUMBERS = 40.0
"""The width of a number next to its bar."""


def show_contributions(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws the parts of one logit: of the selected row, or the first given one that is not a special token.

    Raises DataError if no contributions are given, or none for the row.
    """
    found = choice.all_contributions
    if not found:
        raise DataError(
            "the contribution of each part to a word requires the model's weights, which a trace does not have",
            "pass `contributions=pellucid.attribute_logits(model, trace, row=0)`",
        )
    words = [one for one in found if not one.word.special] or found
    chosen = next((one for one in (words if choice.row is None else found) if choice.row in (None, one.row)), None)
    if chosen is None:
        rows = ", ".join(str(one.row) for one in found)
        raise DataError(f"no contributions to row {choice.row}", f"there are contributions to row {rows}")
    return draw_contributions(chosen, choice.title or _title(chosen), choice.pixels())


def _title(found: "LogitAttribution") -> str:
    against = "" if found.foil is None else f" against “{label(found.foil)}”"
    return f"What speaks for “{label(found.word)}”{against}"


def draw_contributions(found: "LogitAttribution", title: str, width: float | None = None) -> Drawing:
    """Draws one bar per part, the largest first, to the right if it increases the logit, else to the left."""
    page = width or PAGE
    parts = _strongest(found.parts)
    what = "the logit" if found.foil is None else "the lead in logits"
    error = f"to within {max(found.error, 1e-7):.0e}"
    note = f"{what}: {_format_signed(found.total)}, the sum of all parts {error}; norms held as they were"
    drawing = Drawing(title, _description(found, what))
    y = drawing.add_heading(title, note, page) + 6
    left = MARGIN + widest([name_part(part) for part in parts]) * FONT + 8
    low, high = min(0.0, *(part.value for part in parts)), max(0.0, *(part.value for part in parts))
    each = max(30.0, page - MARGIN - left - 2 * NUMBERS) / ((high - low) or 1)
    zero = left + NUMBERS - low * each
    for number, part in enumerate(parts):
        top = y + number * LINE
        start, length = zero + min(0.0, part.value) * each, abs(part.value) * each
        drawing.add(
            Label(name_part(part), left - 6, top + LINE - 4, FONT, "end", INK),
            Box(start, top + (LINE - BAR) / 2, max(length, 0.5), BAR, LESS if part.value < 0 else MORE),
            Label(
                _format_signed(part.value), start - 4 if part.value < 0 else start + length + 4, top + LINE - 4,
                SMALL_SIZE, "end" if part.value < 0 else "start", FAINT_INK,
            ),
        )  # fmt: skip
    bottom = y + len(parts) * LINE
    drawing.add(Line(((zero, y), (zero, bottom)), RULE, 1.0))
    word = "word" if found.foil is None else f"word, not for “{label(found.foil)}”"
    reach = swatch(drawing, MARGIN, bottom + 10, MORE, f"speaks for the {word}")
    swatch(drawing, reach + 18, bottom + 10, LESS, "speaks against it")
    return drawing.finish(width)


def _strongest(parts: Sequence["LogitComponent"]) -> "list[LogitComponent]":
    """Returns the parts by size; the smallest of many are merged into one."""
    ordered = sorted(parts, key=lambda part: -abs(part.value))
    if len(ordered) <= MOST_BARS:
        return ordered
    rest = ordered[MOST_BARS - 1 :]
    total = sum(part.value for part in rest)
    joined = replace(rest[0], name=f"{len(rest)} smaller ones", value=total, attention=None, layer=None, head=None)
    return [*ordered[: MOST_BARS - 1], joined]


def _format_signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _description(found: "LogitAttribution", what: str) -> str:
    ordered = sorted(found.parts, key=lambda part: -abs(part.value))[:10]
    told = "; ".join(f"{name_part(part)} {_format_signed(part.value)}" for part in ordered)
    against = "" if found.foil is None else f" over {isolate_direction(label(found.foil))}"
    return (
        f"What each of {len(found.parts)} parts of the model adds to {what} of "
        f"{isolate_direction(label(found.word))}{against}, "
        f"{_format_signed(found.total)} in all. The largest: {told}."
    )
