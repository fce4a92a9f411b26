"""Lens, contributions and text as stills: the words, numbers and shades are those of what was found out."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from pellucid.analysis.contributions import LogitComponent
from pellucid.errors import DataError
from pellucid.views.canvas.colours import GOLD, LESS, MORE, sequential
from pellucid.views.canvas.shapes import Box, Label, Line
from pellucid.views.words import name_part
from tests.unit.views.drawn import contributions_of, draw_view, encoder, lens_of, texts, tokens, translation


def hexed(share: float) -> str:
    """The colour of a share, as a box has it."""
    return "#{:02x}{:02x}{:02x}".format(*sequential([share])[0].tolist())


def test_a_lens_has_a_word_a_cell_shaded_by_its_probability() -> None:
    trace = translation()
    lens = lens_of(trace)
    drawing = draw_view("lens", trace, lens=lens)
    boxes = [shape for shape in drawing.shapes if isinstance(shape, Box) and shape.fill != "none"]
    assert [box.fill for box in boxes] == [hexed(p) for p in lens.probabilities[..., 0].ravel()]
    expected = [row[0].text.strip() for stage in lens.top for row in stage]
    cells = [shape.text for shape in drawing.shapes if isinstance(shape, Label) and shape.anchor == "middle"]
    assert cells == ["a", "dog", "runs", "<e>", *expected]
    assert [text for text in texts(drawing) if text == "embedding" or text.startswith("layer ")] == [
        "embedding", "layer 0, self-attention", "layer 0, feed-forward", "layer 1, self-attention"
    ], "as the page names them"  # fmt: skip


def test_a_lens_underlines_the_word_that_was_written() -> None:
    lens = lens_of(translation())
    drawing = draw_view("lens", translation(), lens=lens)
    lines = [shape for shape in drawing.shapes if isinstance(shape, Line) and shape.stroke == GOLD]
    assert len(lines) == int((lens.ranks == 0).sum()) + 1, "one in the legend"
    assert "dog\u2069 layer 1, self-attention" in drawing.description
    assert "a\u2069 embedding" in drawing.description


def test_a_word_that_no_stage_finds_is_told() -> None:
    lens = lens_of(translation())
    lost = replace(lens, ranks=np.where(np.arange(4) == 1, 1, lens.ranks))
    assert "dog\u2069 never" in draw_view("lens", translation(), lens=lost).description


def test_a_long_lens_goes_on_below() -> None:
    words = [f"word{n}" for n in range(40)]
    trace = translation(out=words)
    drawing = draw_view("lens", trace, lens=lens_of(trace))
    shown = texts(drawing)
    assert shown.count("embedding") > 2
    assert {text for text in shown if re.fullmatch(r"word\d+", text)} == set(words)


def test_contributions_are_bars_the_largest_first() -> None:
    trace = translation()
    found = contributions_of(trace)
    drawing = draw_view("contributions", trace, contributions=found, row=1)
    ordered = sorted(found[1].parts, key=lambda part: -abs(part.value))
    bars = [shape for shape in drawing.shapes if isinstance(shape, Box)][: len(ordered)]
    assert [bar.fill for bar in bars] == [LESS if part.value < 0 else MORE for part in ordered]
    lengths = np.array([bar.width for bar in bars]) / bars[0].width
    np.testing.assert_allclose(lengths, [abs(part.value / ordered[0].value) for part in ordered], atol=0.02)
    shown = texts(drawing)
    names = [name_part(part) for part in ordered]
    assert [text for text in shown if text in set(names)] == names
    assert names[0].startswith("layer "), "as the page names them"
    assert f"{ordered[0].value:+.2f}".replace("-", "−") in shown
    assert drawing.title == "What speaks for “dog” against “runs”"
    assert f"{found[1].total:+.2f}".replace("-", "−") in " ".join(shown[:3])


def test_bars_begin_at_nothing() -> None:
    trace = translation()
    drawing = draw_view("contributions", trace, contributions=contributions_of(trace)[0])
    bars = [shape for shape in drawing.shapes if isinstance(shape, Box)][:7]
    (line,) = (shape for shape in drawing.shapes if isinstance(shape, Line))
    zero = line.points[0][0]
    for bar in bars:
        end = bar.x + bar.width if bar.fill == LESS else bar.x
        assert end == pytest.approx(zero, abs=1e-6)


def test_many_small_parts_are_added_up() -> None:
    trace = translation()
    many = contributions_of(trace, parts=80)[0]
    drawing = draw_view("contributions", trace, contributions=many)
    assert "51 smaller ones" in texts(drawing)
    rest = sorted(many.parts, key=lambda part: -abs(part.value))[29:]
    assert f"{sum(part.value for part in rest):+.2f}".replace("-", "−") in texts(drawing)


def test_without_a_row_it_is_the_first_word() -> None:
    trace = translation(out=["<s>", "a", "dog", "<e>"])
    found = contributions_of(trace)
    assert draw_view("contributions", trace, contributions=found).title.startswith("What speaks for “a”")
    alone = replace(
        found[1], foil=None, parts=(LogitComponent("embedding", 1.0), LogitComponent("biases", -0.5)), total=0.5
    )
    drawing = draw_view("contributions", trace, contributions=alone)
    assert drawing.title == "What speaks for “a”"
    assert "the logit: +0.50" in " ".join(texts(drawing))
    with pytest.raises(DataError, match="no contributions to row 9") as caught:
        draw_view("contributions", trace, contributions=found, row=9)
    assert caught.value.hint == "there are contributions to row 0, 1, 2, 3"


def test_the_text_is_shaded_by_where_the_word_looked() -> None:
    trace = translation()
    drawing = draw_view("text", trace, layer=1, head=2, row=1)
    weights = trace["cross"].weights(1, 2)[1]
    shades = [shape.fill for shape in drawing.shapes if isinstance(shape, Box) and shape.fill.startswith("#")]
    assert shades == [hexed(w / weights.max()) for w in weights]
    framed = [shape for shape in drawing.shapes if isinstance(shape, Box) and shape.stroke == GOLD]
    (word,) = (shape for shape in drawing.shapes if isinstance(shape, Label) and shape.text == "dog")
    (frame,) = framed
    assert frame.x < word.x < frame.x + frame.width
    shown = texts(drawing)
    assert all(f"{w:.2f}" in shown for w in weights if w >= 0.1)
    assert "this word looks" in shown
    assert "at these" in shown


def test_without_a_head_it_is_the_mean_of_the_layers() -> None:
    trace = translation()
    drawing = draw_view("text", trace, layer=0)
    weights = trace["cross"].layer_weights(0).mean(axis=0)[0]
    shades = [shape.fill for shape in drawing.shapes if isinstance(shape, Box) and shape.fill.startswith("#")]
    assert shades == [hexed(w / weights.max()) for w in weights]
    assert drawing.title == "Layer 0, cross-attention, mean of its heads"


def test_one_text_that_looks_at_itself_stands_once() -> None:
    shown = texts(draw_view("text", encoder(), row=1))
    assert shown.count("dog") == 1
    assert "the framed word looks at the shaded ones" in shown


def test_a_row_that_is_not_there_is_told() -> None:
    with pytest.raises(DataError, match=r"`row` \(4\) must be in 0\.\.3"):
        draw_view("text", translation(), row=4)


def test_text_from_right_to_left_begins_at_the_right() -> None:
    places = {}
    for words in (["kalb", "barr", "<e>"], ["كلب", "بر", "<e>"]):
        drawing = draw_view("text", translation(src=words), row=0)
        found = {shape.text: shape.x for shape in drawing.shapes if isinstance(shape, Label)}
        places[words[0]] = found[words[0]] - found[words[1]]
    assert places["kalb"] < 0 < places["كلب"]


def test_pieces_of_a_word_stand_together() -> None:
    trace = translation(src=["dan", "##eben", "da", "<e>"])
    drawing = draw_view("text", trace, row=0)
    boxes = [shape for shape in drawing.shapes if isinstance(shape, Box) and shape.fill.startswith("#")]
    gaps = [after.x - before.x - before.width for before, after in pairwise(boxes)]
    assert gaps[0] == pytest.approx(0)
    assert gaps[1] > 2
    assert tokens("dan", "##eben")[1].word == 0
