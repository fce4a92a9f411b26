"""The pictures of what is computed from weights: alignment, compare, evolution, flow."""

from dataclasses import replace

import numpy as np
import pytest

from pellucid.analysis.alignment import Gold, LinkExtraction, align_trace
from pellucid.analysis.evolution import collect_evolution
from pellucid.analysis.flow import compute_rollout
from pellucid.errors import ConfigError, DataError
from pellucid.views.canvas.colours import GOLD, map_diverging_colours, sequential
from pellucid.views.canvas.shapes import Box, Dot
from tests.unit.views.drawn import draw_view, encoder, rasters, renamed, texts, translation


def test_links_are_dots_and_gold_is_framed() -> None:
    trace = translation()
    gold = Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))
    drawing = draw_view("alignment", trace, layer=1, head=0, gold=gold)
    links = align_trace(trace, 1, 0)
    dots = [shape for shape in drawing.shapes if isinstance(shape, Dot)]
    assert len(dots) == len(links) + 1  # and one in the legend
    frames = [s for s in drawing.shapes if isinstance(s, Box) and s.stroke == GOLD and s.width > 9]
    assert len(frames) == 2
    assert frames[0].stroke_width > frames[1].stroke_width
    assert {"ein", "Hund", "a", "dog", "runs"} <= set(texts(drawing))
    assert "AER" in " ".join(texts(drawing))


def test_without_a_choice_the_head_that_agrees_with_gold_is_shown() -> None:
    trace = translation()
    gold = Gold(align_trace(trace, 0, 2), align_trace(trace, 0, 2))
    shown = " ".join(texts(draw_view("alignment", trace, gold=gold)))
    assert "precision 1.00, recall 1.00, AER 0.00" in shown


def test_tokens_can_be_aligned() -> None:
    drawing = draw_view("alignment", translation(["un", "##til", "<e>"]), extraction=LinkExtraction(level="tokens"))
    assert {"un", "til"} <= set(texts(drawing))
    assert "until" in texts(draw_view("alignment", translation(["un", "##til", "now", "<e>"])))


def test_only_special_tokens_cannot_be_aligned() -> None:
    with pytest.raises(DataError, match="no word to align"):
        draw_view("alignment", translation(["<e>"]), layer=0, head=0)


def test_the_difference_is_a_less_b() -> None:
    a, b = translation(), translation(["eins", "zwei", "<e>"])
    k = np.random.default_rng(9).normal(size=(2, 3, 3, 5)).astype(np.float32)
    cross = replace(b["cross"], k=k)
    other = replace(renamed(b, "B"), attentions={**b.attentions, "cross": cross})
    drawing = draw_view("compare", a, attention="cross", layer=0, head=1, other=other)
    first, second = a["cross"].weights(0, 1), other["cross"].weights(0, 1)
    images = rasters(drawing)
    np.testing.assert_array_equal(images[0], sequential(first))
    np.testing.assert_array_equal(images[1], sequential(second))
    np.testing.assert_array_equal(
        images[2], map_diverging_colours((first - second) / max(np.abs(first - second).max(), 1e-6))
    )


def test_what_cannot_be_compared_says_why() -> None:
    with pytest.raises(DataError, match="nothing to compare with"):
        draw_view("compare", translation())
    with pytest.raises(DataError, match=r"4 and 3 rows"):
        draw_view("compare", translation(), attention="cross", other=translation(out=("x", "y", "<e>")))


def test_a_statistic_over_steps() -> None:
    found = collect_evolution([5, 10, 15], [encoder(), encoder(["x", "y", "z", "w"]), encoder()])
    drawing = draw_view("evolution", encoder(), evolution=found, statistic="sink")
    values = found.statistics["encoder.self"]["sink"]
    low, high = values.min(), values.max()
    scaled = (values - low) / (high - low) if high > low else values * 0
    np.testing.assert_array_equal(rasters(drawing)[1], sequential(scaled[:, 1].T))
    assert {"5", "10", "15", "layer 0", "layer 1", "head 2", "sink"} <= set(texts(drawing))


def test_an_unknown_statistic_and_no_checkpoints() -> None:
    found = collect_evolution([5], [encoder()])
    with pytest.raises(ConfigError, match="unknown statistic `entrpy`; did you mean `entropy`"):
        draw_view("evolution", encoder(), evolution=found, statistic="entrpy")
    with pytest.raises(DataError, match="is of one checkpoint"):
        draw_view("evolution", encoder())


def test_flow_is_raw_rollout_and_norms_beside_each_other() -> None:
    trace = translation()
    drawing = draw_view("flow", trace, layer=1)
    images = rasters(drawing)
    np.testing.assert_array_equal(images[1], sequential(compute_rollout(trace)["cross"][1]))
    assert {"raw, mean of the heads", "rollout", "norm-weighted, mean of the heads"} <= set(texts(drawing))
    note = " ".join(texts(drawing))
    assert "Abnar and Zuidema 2020" in note
    assert "not by itself an explanation" in note


def test_flow_without_value_norms_has_two_panels() -> None:
    assert len([t for t in texts(draw_view("flow", encoder())) if t.startswith("norm")]) == 0
