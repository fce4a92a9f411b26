"""Draws the beam view: the tree of a search, step by step, with the pruned hypotheses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp

from pellucid.errors import DataError
from pellucid.tracing.search import SearchNode, SearchTrace
from pellucid.tracing.trace import Trace
from pellucid.views.canvas.colours import EMPTY, FAINT_INK, HUE, INK, PAPER, RULE
from pellucid.views.canvas.drawing import MARGIN, PAGE, SMALL_SIZE, Drawing
from pellucid.views.canvas.grid import widest
from pellucid.views.canvas.shapes import Box, Label, Line
from pellucid.views.canvas.text import isolate_direction, label, shorten
from pellucid.views.view_options import ViewOptions

FONT, NUMBER_FONT = 10.5, 7.5
BOX_HEIGHT, ROW, BAND_GAP = 24.0, 31.0, 34.0
NARROWEST, LINK = 44.0, 20.0
LONGEST = 12.0
PAINT = {
    "best": (HUE, PAPER, HUE),
    "finished": ("#d8e4f6", INK, HUE),
    "live": (EMPTY, INK, RULE),
    "pruned": (PAPER, FAINT_INK, RULE),
}
"""The fill, text and frame color of a hypothesis by its status."""
MEANING = {"best": "chosen", "finished": "ended", "live": "continued", "pruned": "dropped"}


@dataclass(frozen=True, slots=True)
class _Place:
    step: int
    row: int


def show_beam(trace: Trace, choice: ViewOptions) -> Drawing:
    """Draws the search of a trace. Raises DataError if it has none."""
    search = trace.search
    if search is None:
        raise DataError("the trace has no search", "trace a translation without giving its target")
    title = f"Beam search, beam {search.beam_size}" if search.beam_size > 1 else "Greedy search"
    return draw_beam(search, choice.title or title, choice.pruned is not False, choice.pixels())


def draw_beam(search: SearchTrace, title: str, pruned: bool = True, width: float | None = None) -> Drawing:
    """Draws one column per step, the best-ranked hypothesis on top, each with the probability of its last token.

    Steps that do not fit the page's width continue below. `pruned`: if True, shows pruned hypotheses, too.
    """
    room = (width or PAGE) - 2 * MARGIN
    chosen = _path_of_the_best(search.nodes)
    places = _places(search.nodes, chosen, pruned)
    texts = {number: shorten(label(search.nodes[number].token), LONGEST) for number in places}
    box = max(NARROWEST, widest(list(texts.values())) * FONT + 10)
    in_band = max(1, int((room + LINK) // (box + LINK)))
    steps = 1 + max(place.step for place in places.values())
    heights = _band_heights(places.values(), steps, in_band)
    drawing = Drawing(title, _description(search, chosen))
    top = drawing.add_heading(title, "", width or PAGE) + 4
    top = _legend(drawing, top, room) + 22
    tops = [top + sum(heights[:band]) for band in range(len(heights))]

    def corner(number: int) -> tuple[float, float]:
        place = places[number]
        band, column = divmod(place.step, in_band)
        return MARGIN + column * (box + LINK), tops[band] + place.row * ROW

    for step in range(steps):
        x, y = MARGIN + (step % in_band) * (box + LINK) + box / 2, tops[step // in_band] - 6
        drawing.add(Label("start" if step == 0 else f"step {step}", x, y, NUMBER_FONT + 1, "middle", FAINT_INK))
    ordered = sorted(places, key=lambda number: (number in chosen, search.nodes[number].status != "pruned"))
    for number in ordered:
        parent = search.nodes[number].parent
        if parent in places:
            same_band = places[number].step % in_band != 0
            _link(drawing, corner(parent) if same_band else None, corner(number), box, number in chosen)
    for number in ordered:
        _node(drawing, search.nodes[number], texts[number], corner(number), box, number in chosen)
    return drawing.finish(width)


def _path_of_the_best(nodes: Sequence[SearchNode]) -> frozenset[int]:
    """Returns the nodes from the root to the selected one."""
    number: int | None = next((n for n, node in enumerate(nodes) if node.status == "best" and _is_end(nodes, n)), None)
    found = set()
    while number is not None:
        found.add(number)
        number = nodes[number].parent
    return frozenset(found)


def _is_end(nodes: Sequence[SearchNode], number: int) -> bool:
    return not any(node.parent == number and node.status == "best" for node in nodes)


def _places(nodes: Sequence[SearchNode], chosen: frozenset[int], pruned: bool) -> dict[int, _Place]:
    """Returns step and rank of each node that is shown: pruned ones are below the others."""
    steps: dict[int, int] = {}
    columns: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        steps[number] = 0 if node.parent is None else steps[node.parent] + 1
        if pruned or node.status != "pruned" or number in chosen:
            columns.setdefault(steps[number], []).append(number)

    def rank(number: int) -> tuple[bool, float, int]:
        return nodes[number].status == "pruned", -nodes[number].ranked_by, number

    return {
        number: _Place(step, row)
        for step, column in columns.items()
        for row, number in enumerate(sorted(column, key=rank))
    }


def _band_heights(places: Iterable[_Place], steps: int, in_band: int) -> list[float]:
    """Returns the height of each line of steps, including the space below it."""
    rows = [0] * (-(-steps // in_band))
    for place in places:
        rows[place.step // in_band] = max(rows[place.step // in_band], place.row + 1)
    return [count * ROW - (ROW - BOX_HEIGHT) + BAND_GAP for count in rows]


def _link(
    drawing: Drawing, start: tuple[float, float] | None, end: tuple[float, float], box: float, best: bool
) -> None:
    """Draws a line from a hypothesis to its continuation; a stub if the hypothesis is on the line above."""
    stroke, stroke_width = (HUE, 2.0) if best else (RULE, 1.0)
    x, y = end[0], end[1] + BOX_HEIGHT / 2
    if start is None:
        drawing.add(Line(((x - 10, y), (x, y)), stroke, stroke_width, dashed=True))
        return
    a, b = start[0] + box, start[1] + BOX_HEIGHT / 2
    middle = (a + x) / 2
    drawing.add(Line(((a, b), (middle, b), (middle, y), (x, y)), stroke, stroke_width, curved=True))


def _node(drawing: Drawing, node: SearchNode, text: str, corner: tuple[float, float], box: float, chosen: bool) -> None:
    x, y = corner
    fill, ink, frame = PAINT["best" if chosen else node.status]
    drawing.add(
        Box(x, y, box, BOX_HEIGHT, fill, frame, radius=3),
        Label(text, x + box / 2, y + (16 if node.parent is None else 11.5), FONT, "middle", ink),
    )
    if node.parent is not None:
        drawing.add(Label(f"{exp(node.log_prob):.3f}", x + box / 2, y + 20.5, NUMBER_FONT, "middle", ink))


def _legend(drawing: Drawing, y: float, room: float) -> float:
    """Draws the legend of the colors and the number, in as many lines as needed; returns its lower end."""
    x = MARGIN
    notes = [
        *((MEANING[status], *paint) for status, paint in PAINT.items()),
        ("number: the token's probability", "", "", ""),
    ]
    for text, fill, _, frame in notes:
        length = (21 if fill else 0) + widest([text]) * SMALL_SIZE
        if x > MARGIN and x + length > MARGIN + room:
            x, y = MARGIN, y + 16
        if fill:
            drawing.add(Box(x, y, 16, 10, fill, frame, radius=2))
        drawing.add(Label(text, x + (21 if fill else 0), y + 8.5, SMALL_SIZE, fill=FAINT_INK))
        x += length + 15
    return y + 12


def _description(search: SearchTrace, chosen: frozenset[int]) -> str:
    best = [search.nodes[number] for number in sorted(chosen)]
    counts = {status: sum(node.status == status for node in search.nodes) for status in MEANING}
    words = " ".join(isolate_direction(label(node.token)) for node in best if node.parent is not None)
    score = f", log-probability {best[-1].score:.2f}" if best else ""
    return (
        f"The tree of a search with beam {search.beam_size} and length penalty {search.length_penalty:g}. Chosen: "
        f"{words}{score}. {counts['finished']} other hypotheses ended, {counts['pruned']} were dropped."
    )
