"""Draws the lens view: the prediction of each layer, shaded by its probability."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from pellucid.errors import DataError
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import FAINT_INK, GOLD, INK, PAPER, RULE, shade
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing
from pellucid.views.canvas.grid import scale_bar, widest
from pellucid.views.canvas.shapes import Box, Label, Line
from pellucid.views.canvas.text import isolate_direction, label, labels, shorten
from pellucid.views.view_options import ViewOptions
from pellucid.views.words import name_stage

if TYPE_CHECKING:
    from pellucid.analysis.lens import LogitLens

FONT, LINE, GAP = 9.0, 17.0, 26.0
NARROWEST, WIDEST = 34.0, 76.0
DARK = 0.5
"""The probability from which on a word is drawn in white."""
MOST_TOLD = 20


def show_lens(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws the predictions of each layer. Raises DataError without a lens."""
    if choice.lens is None:
        raise DataError(
            "the logit lens requires the model's output projection, which a trace does not have",
            "pass `lens=pellucid.logit_lens(model, trace)`",
        )
    what = "says" if choice.lens.sequence == "classes" else "would write"
    return draw_lens(choice.lens, choice.title or f"Logit lens: what each layer {what}", choice.pixels())


def draw_lens(lens: "LogitLens", title: str, width: float | None = None) -> Drawing:
    """Draws one row per stage, the embedding on top, and one column per output token, with the most probable word.

    Columns that do not fit the page's width continue below.
    """
    columns = labels(lens.rows)
    words = [[shorten(label(row[0]), 12.0) for row in stage] for stage in lens.top]
    stages = [name_stage(stage) for stage in lens.stages]
    left = widest(stages) * FONT + 8
    room = (width or PAGE) - 2 * MARGIN - left
    cell = min(WIDEST, max(NARROWEST, max(widest(row) for row in [columns, *words]) * FONT + 8))
    across = max(1, int(room / cell))
    drawing = Drawing(title, _description(lens, columns))
    y = drawing.add_heading(title, "", width or PAGE) + 16
    for band in range(ceil(len(columns) / across)):
        chosen = range(band * across, min(len(columns), (band + 1) * across))
        x = MARGIN + left
        for place, row in enumerate(chosen):
            name = shorten(columns[row], (cell - 4) / FONT)
            drawing.add(Label(name, x + (place + 0.5) * cell, y - 5, FONT, "middle", INK, bold=True))
        for stage, name in enumerate(stages):
            top = y + stage * LINE
            drawing.add(Label(name, x - 6, top + LINE - 5, FONT, "end", FAINT_INK))
            for place, row in enumerate(chosen):
                _cell(drawing, lens, words, stage, row, (x + place * cell, top, cell))
        bottom = y + len(lens.stages) * LINE
        drawing.add(Box(x, y, len(chosen) * cell, bottom - y, stroke=RULE, stroke_width=0.75))
        y = bottom + GAP
    _legend(drawing, y - GAP + 10, lens.sequence == "classes")
    return drawing.finish(width)


def _cell(
    drawing: Drawing,
    lens: "LogitLens",
    words: Sequence[Sequence[str]],
    stage: int,
    row: int,
    at: tuple[float, float, float],
) -> None:
    """Draws the most probable word of a stage for a row, underlined if it is the actual output."""
    x, y, width = at
    probability = float(lens.probabilities[stage, row, 0])
    drawing.add(
        Box(x, y, width, LINE, shade(probability), PAPER, 0.75),
        Label(
            shorten(words[stage][row], (width - 4) / FONT), x + width / 2, y + LINE - 5.5, FONT, "middle",
            PAPER if probability >= DARK else INK,
        ),
    )  # fmt: skip
    if lens.ranks[stage, row] == 0:
        drawing.add(Line(((x + 3, y + LINE - 2.5), (x + width - 3, y + LINE - 2.5)), GOLD, 1.5))


def _legend(drawing: Drawing, y: float, of_classes: bool) -> None:
    drawing.add(Line(((MARGIN, y + 7), (MARGIN + 16, y + 7)), GOLD, 1.5))
    written = "the label that was given" if of_classes else "the word that was written"
    drawing.add(Label(f"{written}; the result is above each column", MARGIN + 21, y + 8.5, SMALL_SIZE, fill=FAINT_INK))
    scale_bar(drawing, MARGIN, y + 16, f"probability of the likeliest {'label' if of_classes else 'word'}")


def _description(lens: "LogitLens", columns: Sequence[str]) -> str:
    """Describes the stage from which on each word is the most probable."""
    told = []
    for row, name in enumerate(columns[:MOST_TOLD]):
        since = lens.find_decision_stage(row)
        place = name_stage(lens.stages[since]) if since < len(lens.stages) else "never"
        told.append(f"{isolate_direction(name)} {place}")
    rest = f" and {len(columns) - MOST_TOLD} more" if len(columns) > MOST_TOLD else ""
    first, last = map(name_stage, (lens.stages[0], lens.stages[-1]))
    return (
        f"What the model would write if it stopped after each of {len(lens.stages)} stages, {first} to {last}. The "
        f"stage from which on each word is the likeliest: {'; '.join(told)}{rest}."
    )
