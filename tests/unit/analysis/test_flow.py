"""Rollout and norms of cases that can be done by hand."""

import numpy as np
import pytest

from pellucid.analysis.flow import FORMULAS, LIMITS, compute_rollout, norm_weighted, share_of_rows
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
    found = compute_rollout(trace_of(encoder_self=np.concatenate([first, second])))["encoder.self"]
    mixed = [(np.eye(3) + layer[0].mean(axis=0)) / 2 for layer in (first, second)]
    np.testing.assert_allclose(found[0], mixed[0], atol=1e-6)
    np.testing.assert_allclose(found[1], mixed[1] @ mixed[0], atol=1e-6)
    assert not np.allclose(mixed[1] @ mixed[0], mixed[0] @ mixed[1])


def test_a_decoder_alone_looks_at_nothing_ahead():
    found = compute_rollout(trace_of(decoder_self=random_weights(3, 2, 4, 4, causal=True)))["decoder.self"]
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-6)
    assert not np.triu(found, 1).any()


def test_the_rollout_of_a_translation_parts_each_place_between_target_and_source():
    found = compute_rollout(
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
    found = compute_rollout(trace_of(encoder_self=encoder, decoder_self=own, cross=cross))
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


def test_each_kind_has_its_formula_and_its_limits():
    assert list(FORMULAS) == list(LIMITS) == ["raw", "rollout", "norm"]
