"""Training and evaluation differ by dropout alone."""

from typing import Any

import pytest
import torch

from tests.tiny_model import SRC_VOCAB_SIZE, TGT_VOCAB_SIZE, padded, tiny_model, words


@pytest.mark.parametrize("fields", [{}, {"norm": "pre", "gated_feed_forward": True}], ids=str)
def test_without_dropout_they_are_the_same(fields: dict[str, Any]) -> None:
    model = tiny_model(**fields)
    src, tgt = padded(words(SRC_VOCAB_SIZE, 3, 6), [6, 1, 4]), words(TGT_VOCAB_SIZE, 3, 5)
    assert torch.equal(model.train()(src, tgt), model.eval()(src, tgt))


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "feed_forward_dropout"])
def test_with_dropout_training_alone_is_random(name: str) -> None:
    model = tiny_model(**{name: 0.3})
    src, tgt = words(SRC_VOCAB_SIZE, 3, 6), words(TGT_VOCAB_SIZE, 3, 5)
    assert torch.equal(model.eval()(src, tgt), model(src, tgt))
    assert not torch.equal(model.train()(src, tgt), model(src, tgt))
    draws = []
    for _ in range(2):
        torch.manual_seed(5)
        draws.append(model(src, tgt))
    assert torch.equal(*draws)


def test_the_mean_of_many_draws_is_near_the_evaluation() -> None:
    """Of the embeddings, where dropout is linear: later layers bend it."""
    embedding = tiny_model(dropout=0.2).src_embedding.eval()
    ids = words(SRC_VOCAB_SIZE, 1, 6)
    expected = embedding(ids)
    mean = embedding.train()(ids.expand(20_000, -1)).mean(dim=0)
    deviation = expected.abs() * (0.2 / 0.8) ** 0.5 / 20_000**0.5
    assert ((mean - expected[0]).abs() <= 5 * deviation + 1e-4).all()
