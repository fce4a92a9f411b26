"""Padding is nothing: neither how much there is of it, nor what its vector holds, nor who else is in the batch."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.decoding.batches import pad
from tests.rounding import DOUBLE_NETWORK
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, padded, tiny_model, words

VARIANTS: list[dict[str, Any]] = [{}, {"norm": "pre", "positions": "learned", "embedding_norm": True}]
each_variant = pytest.mark.parametrize("fields", VARIANTS, ids=str)


@each_variant
@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), more=st.integers(1, 30))
def test_more_padding_of_the_source_changes_nothing(fields: dict[str, Any], seed: int, more: int) -> None:
    torch.manual_seed(seed)
    model = tiny_model(**fields).double()
    src, tgt = padded(words(SRC_VOCAB_SIZE, 3, 6), [6, 1, 4]), words(TGT_VOCAB_SIZE, 3, 5)
    longer = torch.cat([src, torch.zeros(3, more, dtype=torch.int64)], dim=1)
    with torch.no_grad():
        torch.testing.assert_close(model(longer, tgt), model(src, tgt), rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK)


@each_variant
def test_the_vector_of_the_pad_is_irrelevant(fields: dict[str, Any]) -> None:
    model = tiny_model(**fields)
    src, tgt = padded(words(SRC_VOCAB_SIZE, 3, 6), [6, 1, 4]), words(TGT_VOCAB_SIZE, 3, 5)
    with torch.no_grad():
        logits = model(src, tgt)
        model.src_embedding.tokens.weight[0] += 100 * torch.randn(12)
        assert torch.equal(model(src, tgt), logits)


@each_variant
def test_what_stands_where_a_given_mask_blocks_is_irrelevant(fields: dict[str, Any]) -> None:
    model = tiny_model(**fields)
    src, tgt = words(SRC_VOCAB_SIZE, 3, 6), words(TGT_VOCAB_SIZE, 3, 5)
    mask = (torch.arange(6) < torch.tensor([[6], [1], [4]]))[:, None, None]
    other = torch.where(mask[:, 0, 0], src, words(SRC_VOCAB_SIZE, 3, 6))
    assert not torch.equal(other, src)
    assert torch.equal(model(src, tgt, src_mask=mask), model(other, tgt, src_mask=mask))


@each_variant
def test_pads_get_no_gradient(fields: dict[str, Any]) -> None:
    model = tiny_model(**fields)
    src, tgt = padded(words(SRC_VOCAB_SIZE, 3, 6), [6, 1, 4]), words(TGT_VOCAB_SIZE, 3, 5)
    model(src, tgt).square().sum().backward()
    gradient = model.src_embedding.tokens.weight.grad
    assert gradient is not None
    used = set(src.flatten().tolist()) - {0}
    assert {row for row in range(SRC_VOCAB_SIZE) if gradient[row].any()} == used


@each_variant
@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=4),
)
def test_a_sentence_does_not_depend_on_its_neighbours(
    fields: dict[str, Any], seed: int, lengths: list[tuple[int, int]]
) -> None:
    torch.manual_seed(seed)
    model = tiny_model(**fields).double()
    sources = [words(SRC_VOCAB_SIZE, length).tolist() for length, _ in lengths]
    targets = [words(TGT_VOCAB_SIZE, length).tolist() for _, length in lengths]
    with torch.no_grad():
        together = model(pad(sources, 0), pad(targets, 0))
        for row, source, target in zip(together, sources, targets, strict=True):
            alone = model(torch.tensor([source]), torch.tensor([target]))[0]
            torch.testing.assert_close(row[: len(target)], alone, rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK)


@pytest.mark.parametrize("pad_id", [0, 1])
def test_targets_may_begin_with_the_pad_id(pad_id: int) -> None:
    """Some models start decoding with it: it counts as a word in the target."""
    model = tiny_model(pad_id=pad_id)
    src, tgt = words(SRC_VOCAB_SIZE, 1, 6), words(TGT_VOCAB_SIZE, 1, 5)
    started = torch.cat([torch.tensor([[pad_id]]), tgt], dim=1)
    with torch.no_grad():
        logits = model(src, started)
        model.tgt_embedding.tokens.weight[pad_id] += 1
        assert ((model(src, started) - logits).abs().amax(-1) > 1e-4).all()
