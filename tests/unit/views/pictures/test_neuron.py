import re

import numpy as np
import pytest

from pellucid.views.canvas.colours import map_diverging_colours
from tests.unit.views.drawn import draw_view, encoder, rasters, texts


def test_query_keys_and_their_products_are_strips() -> None:
    trace = encoder()
    drawing = draw_view("neuron", trace, layer=1, head=2, row=1)
    attention = trace["encoder.self"]
    assert attention.q is not None
    assert attention.k is not None
    q, k = attention.q[1, 2, 1], attention.k[1, 2]
    query, keys, parts = rasters(drawing)[:3]
    limit = max(np.abs(q).max(), np.abs(k).max())
    np.testing.assert_array_equal(query, map_diverging_colours(q[None] / limit))
    np.testing.assert_array_equal(keys, map_diverging_colours(k / limit))
    products = q * k / np.float32(np.sqrt(5))
    np.testing.assert_array_equal(parts, map_diverging_colours(products / np.abs(products).max()))


@pytest.mark.parametrize("with_bias", [False, True])
def test_scores_biases_and_weights_are_those_of_the_trace(with_bias: bool) -> None:
    bias = np.random.default_rng(5).normal(size=(1, 3, 4, 4)).astype(np.float32) if with_bias else None
    mask = np.tril(np.ones((4, 4), np.bool_))
    trace = encoder(bias=bias, mask=mask)
    shown = texts(draw_view("neuron", trace, layer=0, head=1, row=2))
    attention = trace["encoder.self"]
    weights, scores = attention.weights(0, 1)[2], attention.scores(0, 1)[2]
    assert [text for text in shown if re.fullmatch(r"\d\.\d{3}", text)] == [f"{w:.3f}" for w in weights[:3]]
    assert shown.count("masked") == 1
    numbers = [float(text.replace("−", "-")) for text in shown if re.fullmatch(r"[−+]?\d\.\d\d", text)]
    if bias is None:
        np.testing.assert_allclose(numbers[:3], scores[:3], atol=0.006)
    else:
        plain, added = numbers[0:6:2], numbers[1:6:2]
        np.testing.assert_allclose(added, bias[0, 1, 2, :3], atol=0.006)
        np.testing.assert_allclose(np.add(plain, added), scores[:3], atol=0.011)


def test_shared_keys_and_rotary_positions_are_said() -> None:
    k = np.ones((2, 1, 4, 5), np.float32)
    drawing = draw_view("neuron", encoder(k=k, rotary_base=10000.0), head=2)
    note = " ".join(texts(drawing)[:4])
    assert "Keys of key head 0, which heads share." in note
    assert "Rotary positions have turned query and keys." in note


def test_of_many_keys_the_strongest_are_shown() -> None:
    trace = encoder([f"w{n}" for n in range(80)])
    drawing = draw_view("neuron", trace, layer=0, head=0, row=3)
    assert rasters(drawing)[1].shape == (60, 5, 3)
    weights = trace["encoder.self"].weights(0, 0)[3]
    assert f"w{int(weights.argmax())}" in texts(drawing)
    assert f"w{int(weights.argsort()[1])}" not in texts(drawing)
