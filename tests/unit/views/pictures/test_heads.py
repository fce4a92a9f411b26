import numpy as np
import pytest

from pellucid.views.canvas.colours import HEAD_COLOURS, head_colour
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.canvas.shapes import Box, Label, Line
from pellucid.views.pictures.heads import draw_heads
from tests.unit.views.drawn import texts, tokens

ROWS = tokens("a", "b", "c")
WEIGHTS = np.zeros((2, 3, 3), np.float32)
WEIGHTS[0, 0, 2], WEIGHTS[0, 1, 1], WEIGHTS[1, 2, 0], WEIGHTS[1, 0, 0] = 0.9, 0.3, 0.6, 0.01


def draw(weights: np.ndarray = WEIGHTS, **options: object) -> Drawing:
    return draw_heads(weights, ROWS, ROWS, "T", [1, 4], **options)  # type: ignore[arg-type]


def arcs(drawing: Drawing) -> list[Line]:
    return [shape for shape in drawing.shapes if isinstance(shape, Line)]


def test_an_arc_goes_from_its_row_to_its_column_as_opaque_as_its_weight() -> None:
    drawing = draw()
    found = arcs(drawing)
    assert [arc.opacity for arc in found] == pytest.approx([0.3, 0.6, 0.9])
    assert [arc.stroke for arc in found] == [head_colour(1), head_colour(4), head_colour(1)]
    rows, columns = (
        {s.text: s.y for s in drawing.shapes if isinstance(s, Label) and s.text in "abc" and s.anchor == anchor}
        for anchor in ("end", "start")
    )
    for arc, (row, column) in zip(found, ["bb", "ca", "ac"], strict=True):
        assert arc.points[0][1] == pytest.approx(rows[row], abs=9)
        assert arc.points[-1][1] == pytest.approx(columns[column], abs=9)


def test_the_largest_weights_are_kept() -> None:
    assert [arc.opacity for arc in arcs(draw(top_k=2))] == pytest.approx([0.6, 0.9])
    assert arcs(draw(top_k=0)) == []


def test_heads_of_one_pair_of_tokens_end_apart() -> None:
    both = np.full((2, 3, 3), 1 / 3, np.float32)
    ends = {arc.points[-1] for arc in arcs(draw(both))}
    assert len(ends) == 6


def test_each_head_has_its_number_and_colour() -> None:
    assert {"head 1", "4"} <= set(texts(draw()))
    assert len(set(HEAD_COLOURS)) == 16
    assert head_colour(17) == head_colour(1)


def test_two_texts_stand_apart_and_are_named() -> None:
    pair = tokens("a") + tokens("b", segment=1)
    drawing = draw_heads(np.ones((1, 2, 2), np.float32), pair, pair, "T", [0])
    assert sorted(text for text in texts(drawing) if text in "AB") == ["A", "A", "B", "B"]
    alone = draw_heads(np.ones((1, 2, 2), np.float32), tokens("a", "b"), tokens("a", "b"), "T", [0])
    assert drawing.height > alone.height
    assert (
        len([s for s in drawing.shapes if isinstance(s, Box)])
        == len([s for s in alone.shapes if isinstance(s, Box)]) + 4
    )
