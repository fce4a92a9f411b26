from math import exp

import pytest

from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.shapes import Box, Label, Line
from pellucid.views.pictures.beam import PAINT, draw_beam
from tests.unit.views.drawn import search, texts


def boxes(drawing: Drawing) -> dict[tuple[str, str], Box]:
    """The box of each hypothesis by its token and probability."""
    labels = [shape for shape in drawing.shapes if isinstance(shape, Label) and shape.anchor == "middle"]
    found = {}
    for box in (shape for shape in drawing.shapes if isinstance(shape, Box) and shape.radius == 3):
        inside = [s.text for s in labels if box.x < s.x < box.x + box.width and box.y < s.y < box.y + box.height]
        found[inside[0], inside[1] if len(inside) > 1 else ""] = box
    return found


def test_each_hypothesis_has_its_place_colour_and_probability() -> None:
    found = boxes(draw_beam(search(), "T"))
    assert set(found) == {
        ("<s>", ""), ("a", f"{exp(-0.5):.3f}"), ("b", f"{exp(-0.7):.3f}"), ("c", f"{exp(-3):.3f}"),
        ("d", f"{exp(-4):.3f}"), ("<e>", f"{exp(-1):.3f}"), ("<e>", f"{exp(-0.1):.3f}"),
    }  # fmt: skip
    place = {token + number: box for (token, number), box in found.items()}
    assert place["a0.607"].x == place["b0.497"].x == place["c0.050"].x < place["<e>0.905"].x
    assert place["a0.607"].y < place["b0.497"].y < place["c0.050"].y
    assert place["<e>0.905"].y < place["<e>0.368"].y < place["d0.018"].y
    fills = {name: box.fill for name, box in place.items()}
    assert fills["b0.497"] == fills["<e>0.905"] == fills["<s>"] == PAINT["best"][0]
    assert (fills["a0.607"], fills["<e>0.368"]) == (PAINT["live"][0], PAINT["finished"][0])
    assert fills["c0.050"] == fills["d0.018"] == PAINT["pruned"][0]


def test_a_line_goes_from_each_hypothesis_to_what_continues_it() -> None:
    lines = [shape for shape in draw_beam(search(), "T").shapes if isinstance(shape, Line)]
    assert len(lines) == 6
    assert sum(line.stroke == PAINT["best"][0] for line in lines) == 2


def test_what_was_dropped_can_be_left_out() -> None:
    assert {token for token, _ in boxes(draw_beam(search(), "T", pruned=False))} == {
        "<s>",
        "a",
        "b",
        "<e>",
    }


def test_steps_go_on_below_where_a_page_ends() -> None:
    wide, narrow = draw_beam(search(), "T"), draw_beam(search(), "T", width=150)
    assert narrow.width < wide.width
    assert narrow.height > wide.height
    assert len(boxes(narrow)) == 7
    assert any(isinstance(shape, Line) and shape.dashed for shape in narrow.shapes)


@pytest.mark.parametrize("text", ["start", "step 1", "step 2", "chosen", "dropped", "ended", "continued"])
def test_steps_and_colours_are_named(text: str) -> None:
    assert text in texts(draw_beam(search(), "T"))
