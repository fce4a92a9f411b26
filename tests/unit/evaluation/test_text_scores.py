"""Loss, perplexity and bits a byte of a text."""

import math

import pytest

from pellucid.errors import DataError
from pellucid.evaluation.text_scores import score_texts


def test_a_fair_coin() -> None:
    found = score_texts([[math.log(0.5)] * 6, [math.log(0.5)] * 2], 4)
    assert found.loss == pytest.approx(math.log(2))
    assert found.perplexity == pytest.approx(2)
    assert found.bits_per_byte == pytest.approx(2), "8 bits for 4 bytes"
    assert (found.tokens, found.bytes, found.texts) == (8, 4, 2)
    assert found.to_json()["tokens"] == 8
    assert "perplexity     2.000\n" in found.report()


def test_the_mean_is_over_tokens_not_over_texts() -> None:
    assert score_texts([[-1.0], [-4.0, -4.0]], 3).loss == pytest.approx(3.0)


def test_what_cannot_be_told() -> None:
    assert score_texts([[-1e6]], 1).perplexity == math.inf
    with pytest.raises(DataError, match=r"^nothing to score: 0 tokens, 5 bytes$"):
        score_texts([[], []], 5)
