"""Rollout, norms and flow of cases that can be done by hand."""

from itertools import product

import numpy as np
import pytest

from pellucid.analysis.flow import FORMULAS, LIMITS, attention_flow, norm_weighted, rollout, share_of_rows
from pellucid.errors import DataError
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.trace import Trace

rng = np.random.default_rng(3)


def random_weights(*shape, causal=False):
    weights = rng.random(shape)
    if causal:
        weights = np.tril(weights)
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def attention(name, weights, norms=None):
    rows, columns = {"encoder.self": ("src", "src"), "decoder.self": ("tgt", "tgt"), "cross": ("out", "src")}[name]
    return AttentionTrace(name=name, queries=rows, keys=columns, ready=weights, value_norms=norms)


def trace_of(**attentions):
    named = {name.replace("_", "."): weights for name, weights in attentions.items()}
    return Trace(
        model={},
        sequences={},
        attentions={name: attention(name, weights) for name, weights in named.items()},
        faithfulness=0.0,
    )


def test_the_rollout_of_two_layers_by_hand():
    first, second = random_weights(1, 2, 3, 3), random_weights(1, 2, 3, 3)
    found = rollout(trace_of(encoder_self=np.concatenate([first, second])))["encoder.self"]
    mixed = [(np.eye(3) + layer[0].mean(axis=0)) / 2 for layer in (first, second)]
    np.testing.assert_allclose(found[0], mixed[0], atol=1e-6)
    np.testing.assert_allclose(found[1], mixed[1] @ mixed[0], atol=1e-6)
    assert not np.allclose(mixed[1] @ mixed[0], mixed[0] @ mixed[1])


def test_a_decoder_alone_looks_at_nothing_ahead():
    found = rollout(trace_of(decoder_self=random_weights(3, 2, 4, 4, causal=True)))["decoder.self"]
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-6)
    assert not np.triu(found, 1).any()


def test_the_rollout_of_a_translation_parts_each_place_between_target_and_source():
    found = rollout(
        trace_of(
            encoder_self=random_weights(2, 2, 5, 5),
            decoder_self=random_weights(2, 2, 3, 3, causal=True),
            cross=random_weights(2, 2, 3, 5),
        )
    )
    assert found["cross"].shape == (2, 3, 5)
    np.testing.assert_allclose(found["decoder.self"].sum(-1) + found["cross"].sum(-1), 1, atol=1e-6)


def test_the_first_decoder_layer_by_hand():
    encoder, own, cross = (
        random_weights(1, 1, 2, 2),
        random_weights(1, 1, 2, 2, causal=True),
        random_weights(1, 1, 2, 2),
    )
    found = rollout(trace_of(encoder_self=encoder, decoder_self=own, cross=cross))
    np.testing.assert_allclose(found["decoder.self"][0], (np.eye(2) + own[0, 0]) / 4, atol=1e-6)
    memory = (np.eye(2) + encoder[0, 0]) / 2
    np.testing.assert_allclose(found["cross"][0], cross[0, 0] @ memory / 2, atol=1e-6)


def test_norms_weigh_each_key():
    weights, norms = random_weights(2, 3, 4, 4), rng.random((2, 3, 4)).astype(np.float32)
    found = norm_weighted(attention("encoder.self", weights, norms))
    assert found[1, 2, 3, 0] == pytest.approx(weights[1, 2, 3, 0] * norms[1, 2, 0])
    np.testing.assert_allclose(share_of_rows(found).sum(axis=-1), 1, atol=1e-5)
    assert share_of_rows(np.zeros((2, 2), np.float32)).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(DataError, match=r"`encoder\.self` has no value norms"):
        norm_weighted(attention("encoder.self", weights))


def smallest_cut(mixed, row, sink):
    """The greatest flow is the smallest cut: all cuts are tried."""
    layers, length, _ = mixed.shape
    nodes = (layers + 1) * length
    source, best = layers * length + row, np.inf
    for sides in product((False, True), repeat=nodes):
        if not sides[source] or sides[sink]:
            continue
        cut = 0.0
        for n, i, j in product(range(layers), range(length), range(length)):
            if sides[(n + 1) * length + i] and not sides[n * length + j]:
                cut += (float(i == j) + mixed[n, i, j]) / 2
        best = min(best, cut)
    return best


@pytest.mark.parametrize("seed", [0, 4, 12])
def test_the_flow_is_the_smallest_cut(seed):
    # Of seeds 4 and 12 the widest path must give back part of what it took.
    generator = np.random.default_rng(seed)
    mixed = (generator.random((3, 3, 3)) * (generator.random((3, 3, 3)) < 0.6)).astype(np.float32)
    for row in range(3):
        flow = attention_flow(mixed, row)
        np.testing.assert_allclose(flow, [smallest_cut(mixed, row, sink) for sink in range(3)], atol=1e-5)


def test_flow_has_its_limits():
    with pytest.raises(DataError, match="at most 133 tokens, not 200"):
        attention_flow(np.zeros((2, 200, 200), np.float32), 0)
    with pytest.raises(DataError, match=r"`row` \(3\) must be in 0..2"):
        attention_flow(random_weights(1, 3, 3), 3)


def test_each_kind_has_its_formula_and_its_limits():
    assert list(FORMULAS) == list(LIMITS) == ["raw", "rollout", "norm", "flow"]
