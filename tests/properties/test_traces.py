"""What must hold of any trace: rows that sum to one, causality, the same past whatever follows, padding that is not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.tasks.tracing import trace
from pellucid.tracing.trace import Trace
from tests.rounding import NETWORK, gamma
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE
from tests.unit.tracing.models import KINDS, decoder, transformer

SOURCES = st.lists(st.integers(3, SRC_VOCAB_SIZE - 1), min_size=1, max_size=9)
TARGETS = st.lists(st.integers(3, TGT_VOCAB_SIZE - 1), min_size=1, max_size=9)


def all_weights(found: Trace, name: str) -> np.ndarray:
    """(N, H, L, M)."""
    kind = found[name]
    layers, heads = range(kind.num_layers), range(kind.num_heads)
    return np.stack([[kind.weights(layer, head) for head in heads] for layer in layers])


@settings(max_examples=15)
@given(kind=st.sampled_from(sorted(KINDS)), src=SOURCES, tgt=TARGETS)
def test_weights_are_a_distribution_over_what_may_be_seen(kind: str, src: list[int], tgt: list[int]) -> None:
    torch.manual_seed(0)
    found = trace(transformer(**KINDS[kind]), src, tgt)
    for name in found:
        weights = all_weights(found, name)
        assert weights.min() >= 0
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=gamma(2 * weights.shape[-1]))
    assert not np.triu(all_weights(found, "decoder.self"), k=1).any()
    assert found.faithfulness <= NETWORK


@pytest.mark.slow
@settings(max_examples=15)
@given(kind=st.sampled_from(sorted(KINDS)), text=TARGETS, more=TARGETS)
def test_what_follows_changes_nothing_of_the_past(kind: str, text: list[int], more: list[int]) -> None:
    torch.manual_seed(0)
    model = decoder(**KINDS[kind])
    short, long = trace(model, text), trace(model, text + more)
    before = all_weights(long, "decoder.self")[:, :, : len(text), : len(text)]
    np.testing.assert_allclose(before, all_weights(short, "decoder.self"), atol=NETWORK)


@pytest.mark.slow
@settings(max_examples=15)
@given(src=SOURCES, tgt=TARGETS, padding=st.integers(1, 5))
def test_padding_leaves_no_trace(src: list[int], tgt: list[int], padding: int) -> None:
    torch.manual_seed(0)
    model = transformer()
    found, padded = trace(model, src, tgt), trace(model, src + [0] * padding, tgt + [0] * padding)
    assert found.sequences == padded.sequences
    for name in found:
        np.testing.assert_array_equal(all_weights(found, name), all_weights(padded, name))
