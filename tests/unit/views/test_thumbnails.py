import numpy as np
import pytest

from pellucid.tracing.trace import AttentionTrace
from pellucid.views.thumbnails import layer_weights, thumbnails
from tests.unit.views.drawn import attention


def variants() -> dict[str, AttentionTrace]:
    mask = np.tril(np.ones((6, 6), np.bool_))
    mask[2] = False
    bias = np.random.default_rng(1).normal(size=(1, 3, 6, 6)).astype(np.float32)
    shared = np.random.default_rng(2).normal(size=(2, 1, 6, 5)).astype(np.float32)
    plain = attention(length=6)
    weights = np.stack([[plain.weights(n, h) for h in range(3)] for n in range(2)])
    return {
        "plain": plain,
        "masked": attention(length=6, mask=mask),
        "bias": attention(length=6, bias=bias, mask=mask),
        "bias a layer": attention(length=6, bias=np.concatenate([bias, -bias])),
        "shared keys": attention(length=6, k=shared),
        "cross": attention("cross", 4, 7),
        "ready": AttentionTrace(name="x", queries="src", keys="src", ready=weights),
    }


@pytest.mark.parametrize("kind", variants())
def test_all_heads_at_once_are_the_heads_one_by_one(kind: str) -> None:
    trace = variants()[kind]
    for layer in range(2):
        weights = layer_weights(trace, layer)
        for head in range(3):
            np.testing.assert_allclose(weights[head], trace.weights(layer, head), atol=1e-6)


def test_a_pixel_is_the_largest_weight_that_it_lies_over() -> None:
    weights = np.zeros((1, 1, 64, 96), np.float32)
    weights[0, 0, 10, 50] = 1
    weights[0, 0, 63, 0] = 0.5
    found = thumbnails(AttentionTrace(name="x", queries="src", keys="tgt", ready=weights))
    assert found.shape == (1, 1, 32, 32)
    assert found.dtype == np.uint8
    expected = np.zeros((32, 32), np.uint8)
    expected[5, 16], expected[31, 0] = 255, 128
    np.testing.assert_array_equal(found[0, 0], expected)


def test_few_tokens_are_several_pixels_each() -> None:
    weights = np.array([[[[1, 0], [0, 1]]]], np.float32)
    found = thumbnails(AttentionTrace(name="x", queries="src", keys="src", ready=weights))[0, 0]
    np.testing.assert_array_equal(found, np.kron(np.eye(2), np.full((16, 16), 255)))


def test_another_size() -> None:
    assert thumbnails(attention(length=50), size=8).shape == (2, 3, 8, 8)
