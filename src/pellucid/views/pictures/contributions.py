"""Draws the contributions view: what each head and each feed-forward network adds to the logit of a word."""

from collections.abc import Sequence

from pellucid.analysis.contributions import Contributions, Part
from pellucid.errors import DataError
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import FAINT_INK, INK, LESS, MORE, RULE
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing
from pellucid.views.canvas.grid import swatch, widest
from pellucid.views.canvas.shapes import Box, Label, Line
from pellucid.views.canvas.text import isolated, label
from pellucid.views.choice import Choice

FONT, LINE, BAR = 10.0, 15.0, 9.0
MOST_BARS = 30
"""The parts that are drawn; the smaller ones are added up."""
NUMBERS = 40.0
"""The room of a number beside its bar."""


def show_contributions(trace: Trace, choice: Choice) -> Drawing:
    """Draws the parts of one logit: of the row that is chosen, or the first that is given and no special token's.

    Raises DataError where no contributions are given, or none of the row.
    """
    found = choice.all_contributions
    if not found:
        raise DataError(
            "a trace alone does not tell what each part adds to a word: the model's weights do",
            "give `contributions=pellucid.contributions(model, trace, row=0)`",
        )
    words = [one for one in found if not one.word.special] or found
    chosen = next((one for one in (words if choice.row is None else found) if choice.row in (None, one.row)), None)
    if chosen is None:
        rows = ", ".join(str(one.row) for one in found)
        raise DataError(f"there are no contributions to row {choice.row}", f"there are those to row {rows}")
    return draw_contributions(chosen, choice.title or _title(chosen), choice.pixels())


def _title(found: Contributions) -> str:
    against = "" if found.against is None else f" against “{label(found.against)}”"
    return f"What speaks for “{label(found.word)}”{against}"


def draw_contributions(found: Contributions, title: str, width: float | None = None) -> Drawing:
    """Draws a bar a part, the largest first, to the right where it speaks for the word and to the left where not."""
    page = width or PAGE
    parts = _strongest(found.parts)
    what = "the logit" if found.against is None else "the lead in logits"
    error = f"to within {max(found.error, 1e-7):.0e}"
    note = f"{what}: {_signed(found.total)}, the sum of all parts {error}; norms held as they were"
    drawing = Drawing(title, _description(found, what))
    y = drawing.add_heading(title, note, page) + 6
    left = MARGIN + widest([part.name for part in parts]) * FONT + 8
    low, high = min(0.0, *(part.value for part in parts)), max(0.0, *(part.value for part in parts))
    each = max(30.0, page - MARGIN - left - 2 * NUMBERS) / ((high - low) or 1)
    zero = left + NUMBERS - low * each
    for number, part in enumerate(parts):
        top = y + number * LINE
        start, length = zero + min(0.0, part.value) * each, abs(part.value) * each
        drawing.add(
            Label(part.name, left - 6, top + LINE - 4, FONT, "end", INK),
            Box(start, top + (LINE - BAR) / 2, max(length, 0.5), BAR, LESS if part.value < 0 else MORE),
            Label(
                _signed(part.value), start - 4 if part.value < 0 else start + length + 4, top + LINE - 4,
                SMALL_SIZE, "end" if part.value < 0 else "start", FAINT_INK,
            ),
        )  # fmt: skip
    bottom = y + len(parts) * LINE
    drawing.add(Line(((zero, y), (zero, bottom)), RULE, 1.0))
    word = "word" if found.against is None else f"word, not for “{label(found.against)}”"
    reach = swatch(drawing, MARGIN, bottom + 10, MORE, f"speaks for the {word}")
    swatch(drawing, reach + 18, bottom + 10, LESS, "speaks against it")
    return drawing.finish(width)


def _strongest(parts: Sequence[Part]) -> list[Part]:
    """Returns the parts by size; where there are many, the small ones as one."""
    ordered = sorted(parts, key=lambda part: -abs(part.value))
    if len(ordered) <= MOST_BARS:
        return ordered
    rest = ordered[MOST_BARS - 1 :]
    return [*ordered[: MOST_BARS - 1], Part(f"{len(rest)} smaller ones", sum(part.value for part in rest))]


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _description(found: Contributions, what: str) -> str:
    ordered = sorted(found.parts, key=lambda part: -abs(part.value))[:10]
    told = "; ".join(f"{part.name} {_signed(part.value)}" for part in ordered)
    against = "" if found.against is None else f" over {isolated(label(found.against))}"
    return (
        f"What each of {len(found.parts)} parts of the model adds to {what} of {isolated(label(found.word))}{against}, "
        f"{_signed(found.total)} in all. The largest: {told}."
    )
