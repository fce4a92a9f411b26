"""Future target tokens never change the past; each past token does change the future."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rounding import DOUBLE_NETWORK
from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, tiny_model, words

VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "positions": "learned", "embedding_norm": True, "gated_feed_forward": True},
    {"pad_id": None, "num_decoder_layers": 4},
]


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), cut=st.integers(1, 8))
def test_the_future_never_changes_the_past(fields: dict[str, Any], seed: int, cut: int) -> None:
    torch.manual_seed(seed)
    model = tiny_model(**fields).double()
    src, tgt = words(SRC_VOCAB_SIZE, 2, 5), words(TGT_VOCAB_SIZE, 2, 8)
    other = tgt.clone()
    other[:, cut:] = torch.randint(0, TGT_VOCAB_SIZE, other[:, cut:].shape)  # pads and start tokens, too
    with torch.no_grad():
        logits, changed, shorter = model(src, tgt), model(src, other), model(src, tgt[:, :cut])
    assert torch.equal(logits[:, :cut], changed[:, :cut])
    torch.testing.assert_close(logits[:, :cut], shorter, rtol=DOUBLE_NETWORK, atol=DOUBLE_NETWORK)


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_the_past_never_gets_a_gradient_from_the_future(fields: dict[str, Any]) -> None:
    model = tiny_model(**fields)
    memory = torch.randn(2, 5, 12)
    x = torch.randn(2, 8, 12, requires_grad=True)
    mask = torch.ones(8, 8, dtype=torch.bool).tril()
    for position in range(8):
        direction = torch.randn(2, 12)
        states = model.decoder(x, memory, mask, None)
        (gradient,) = torch.autograd.grad((states[:, position] * direction).sum(), x)
        reached = gradient.abs().sum(dim=(0, 2)) != 0
        assert reached.tolist() == [key <= position for key in range(8)]


def test_the_encoder_sees_both_ways() -> None:
    model = tiny_model()
    src = words(SRC_VOCAB_SIZE, 1, 6)
    for position in range(6):
        changed = src.clone()
        changed[0, position] = 3 + (src[0, position] - 2) % (SRC_VOCAB_SIZE - 3)
        assert ((model.encode(src) - model.encode(changed)).abs().amax(-1) > 1e-4).all()


def test_every_word_of_the_source_reaches_every_position_of_the_target() -> None:
    model = tiny_model()
    memory = torch.randn(1, 6, 12, requires_grad=True)
    logits = model.decode(words(TGT_VOCAB_SIZE, 1, 4), memory, words(SRC_VOCAB_SIZE, 1, 6))
    for position in range(4):
        (gradient,) = torch.autograd.grad(logits[0, position].square().sum(), memory, retain_graph=True)
        assert (gradient.abs().amax(-1) > 0).all()
