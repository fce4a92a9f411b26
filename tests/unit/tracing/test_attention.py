"""Weights of a whole layer, which views draw, against those of its heads one by one."""

import numpy as np
import pytest

from pellucid.tracing.attention import AttentionTrace
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
        weights = trace.layer_weights(layer)
        for head in range(3):
            np.testing.assert_allclose(weights[head], trace.weights(layer, head), atol=1e-6)
