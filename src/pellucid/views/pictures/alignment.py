"""Draws the alignment view: target words against source words, the extracted links, and gold links."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from pellucid.analysis.aligning_head import Agreement, choose_extraction, find_aligning_head
from pellucid.analysis.alignment import LinkExtraction, SoftAlignment, extract_links, soft_alignment
from pellucid.analysis.weights import average_weights
from pellucid.errors import DataError
from pellucid.tracing.attention import Array
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import GOLD, INK, PAPER, sequential
from pellucid.views.canvas.drawing import MARGIN, PAGE, Drawing
from pellucid.views.canvas.grid import Grid, scale_bar, swatch
from pellucid.views.canvas.shapes import Box, Dot
from pellucid.views.canvas.text import isolate_direction, shorten, visible
from pellucid.views.view_options import ViewOptions

Link = tuple[int, int]
"""The column and the row: the source word and the target word."""
DARK = 0.55
"""The weight from which on a mark is white."""


def show_alignment(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws the links extracted from a head of a trace, or from the mean of several.

    Raises DataError for a trace without cross-attention, or with only special tokens on one side.
    """
    cross = trace["cross"]
    layer, head, extraction = alignment_choice(trace, choice)
    rows, columns = trace.sequences[cross.queries], trace.sequences[cross.keys]
    soft = soft_alignment(average_weights(cross, layer, head), rows, columns, extraction)
    if not soft.weights.size:
        raise DataError("no word to align: one side has only special tokens")
    found = extract_links(soft, extraction)
    of = (
        "mean of all layers"
        if layer is None
        else f"layer {layer}, " + ("mean of its heads" if head is None else f"head {head}")
    )
    notes = [f"{extraction.method}; the step that {extraction.row} a target word"]
    sure, possible = frozenset[Link](), frozenset[Link]()
    if choice.gold is not None:
        agreement = Agreement.from_links(found, choice.gold)
        notes.append(f"precision {agreement.precision:.2f}, recall {agreement.recall:.2f}, AER {agreement.aer:.2f}")
        sure, possible = _number_links(choice.gold.sure, soft), _number_links(choice.gold.possible, soft)
    row_names, column_names = (
        _unit_names(side, numbers, extraction) for side, numbers in ((rows, soft.targets), (columns, soft.sources))
    )
    # A sum over tokens may exceed one by rounding.
    weights = np.clip(soft.weights, 0, 1).astype(np.float32)
    title, links = choice.title or f"Alignment, {of}", _number_links(found, soft)
    return draw_alignment(
        weights, row_names, column_names, title, links, sure, possible, choice.pixels(), "; ".join(notes)
    )


def alignment_choice(trace: Trace, choice: ViewOptions) -> tuple[int | None, int | None, LinkExtraction]:
    """Returns the selected head and its extraction; by default the result of find_aligning_head()."""
    if choice.head is not None and not isinstance(choice.head, int):
        raise DataError(f"an alignment requires one head or the mean of a layer, not `head` {choice.head!r}")
    if choice.layer is not None or choice.head is not None:
        _, layer = replace(choice, attention="cross").place(trace)
        return layer, choice.head, choice.extraction or choose_extraction(trace, choice.gold)
    return find_aligning_head(trace, choice.extraction, choice.gold)


def alignment_state(layer: int | None, head: int | None, extraction: LinkExtraction) -> dict[str, str]:
    """Returns a selection as in the page's address: without a head a layer's mean, without a layer the mean of all."""
    by = "all" if layer is None else "layer" if head is None else "head"
    state = {"alignment.by": by, "alignment.row": extraction.row, "alignment.level": extraction.level}
    state |= {"alignment.method": extraction.method, "alignment.threshold": str(extraction.threshold)}
    return state | {name: str(value) for name, value in (("layer", layer), ("head", head)) if value is not None}


def _number_links(links: frozenset[Link], soft: SoftAlignment) -> frozenset[Link]:
    """Returns links between words as (column, row); links of words that are not shown are left out."""
    rows, columns = ({number: place for place, number in enumerate(side)} for side in (soft.targets, soft.sources))
    return frozenset((columns[s], rows[t]) for s, t in links if s in columns and t in rows)


def _unit_names(tokens: tuple[Token, ...], numbers: list[int], extraction: LinkExtraction) -> list[str]:
    """Returns the text of each word, or token."""
    usable = [token for token in tokens if not token.special]
    if extraction.level == "tokens":
        return [shorten(visible(usable[number].text.strip())) for number in numbers]
    words: dict[int | None, str] = {}
    for token in usable:
        words[token.word] = words.get(token.word, "") + token.text_in_word
    return [shorten(visible(words[number].strip())) for number in numbers]


def draw_alignment(
    weights: Array,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    links: Collection[Link],
    sure: Collection[Link] = (),
    possible: Collection[Link] = (),
    width: float | None = None,
    note: str = "",
) -> Drawing:
    """Draws weights (T, S) between words, with a dot for each link.

    A sure gold link has a golden frame, a possible one a thin frame. Links are (column, row).
    """
    room = (width or PAGE) - 2 * MARGIN
    grid = Grid.fit(list(rows), list(columns), room, largest=28)
    drawing = Drawing(title, _description(rows, columns, links, sure, possible))
    x, y = MARGIN + grid.left, drawing.add_heading(title, note, width or PAGE) + grid.top
    grid.draw(drawing, x, y, sequential(weights))
    grid.draw_row_labels(drawing, x, y)
    grid.draw_column_labels(drawing, x, y)
    for column, row in sorted(set(possible) | set(sure)):
        stroke = max(1.0, grid.cell * (0.12 if (column, row) in sure else 0.05))
        inset = stroke / 2 + 0.5
        place = (x + column * grid.cell + inset, y + row * grid.cell + inset)
        drawing.add(Box(*place, grid.cell - 2 * inset, grid.cell - 2 * inset, stroke=GOLD, stroke_width=stroke))
    for column, row in sorted(links):
        centre = (x + (column + 0.5) * grid.cell, y + (row + 0.5) * grid.cell)
        drawing.add(Dot(*centre, 0.2 * grid.cell, PAPER if weights[row, column] > DARK else INK))
    bottom = y + grid.height + 16
    scale_bar(drawing, MARGIN, bottom, "attention weight")
    _legend(drawing, bottom + 18, bool(sure), bool(set(possible) - set(sure)))
    return drawing.finish(width)


def _legend(drawing: Drawing, y: float, has_sure: bool, has_possible: bool) -> None:
    drawing.add(Dot(MARGIN + 5.5, y + 5.5, 4, INK))
    reach = swatch(drawing, MARGIN, y, "none", "link")
    for there, stroke, meaning in ((has_sure, 2.5, "sure"), (has_possible, 1.0, "possible")):
        if there:
            drawing.add(Box(reach + 19, y + 1, 9, 9, stroke=GOLD, stroke_width=stroke))
            reach = swatch(drawing, reach + 18, y, "none", f"gold, {meaning}")


def _description(
    rows: Sequence[str],
    columns: Sequence[str],
    links: Collection[Link],
    sure: Collection[Link],
    possible: Collection[Link],
) -> str:
    pairs = (
        f"{isolate_direction(columns[c])} – {isolate_direction(rows[r])}"
        for c, r in sorted(links, key=lambda link: link[::-1])
    )
    gold = f" Gold: {len(sure)} sure links, {len(set(possible) - set(sure))} possible ones." if possible or sure else ""
    agreed = f" {len(set(links) & set(sure))} of the sure ones are found." if sure else ""
    return f"Rows are target words, columns source words. Links: {'; '.join(pairs) or 'none'}.{gold}{agreed}"
