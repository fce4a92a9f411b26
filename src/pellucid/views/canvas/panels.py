"""Heat maps that are not attention: each with its title, its axes named, and its scale."""

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.views.canvas.colours import FAINT_INK, INK
from pellucid.views.canvas.drawing import Drawing, Label, Pixels
from pellucid.views.canvas.grid import SMALL_SIZE, Grid
from pellucid.views.canvas.text import shorten

TITLE_SIZE = 11.5


@dataclass(frozen=True, slots=True)
class MapPanel:
    """A heat map of (L, M) cells."""

    title: str
    pixels: Pixels
    rows: Sequence[str]
    columns: Sequence[str]
    down: str = ""
    """What the rows are."""
    across: str = ""
    """What the columns are."""
    strong: bool = True
    """Whether the title stands out."""


def draw_map(drawing: Drawing, panel: MapPanel, x: float, y: float, room: float, largest: float) -> tuple[float, float]:
    """The panel, its upper left corner at (x, y), at most `room` wide; returns how far it reaches right and down."""
    grid = Grid.fit(list(panel.rows), list(panel.columns), room - (16 if panel.down else 0), largest, height=420)
    left = x + (16 if panel.down else 0) + grid.left
    top = y + 20 + (14 if panel.across else 0) + grid.top
    drawing.add(Label(panel.title, x, y + 12, TITLE_SIZE, fill=INK, bold=panel.strong))
    if panel.across:
        drawing.add(Label(panel.across, left, y + 30, SMALL_SIZE, fill=FAINT_INK))
    if panel.down:
        middle = top + grid.height / 2
        drawing.add(Label(shorten(panel.down), x + 10, middle, SMALL_SIZE, "middle", FAINT_INK, turn=-90))
    grid.draw(drawing, left, top, panel.pixels)
    grid.draw_row_labels(drawing, left, top)
    grid.draw_column_labels(drawing, left, top)
    return left + grid.width, top + grid.height
