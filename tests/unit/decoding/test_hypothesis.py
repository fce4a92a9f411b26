"""What all searches share: limits, ranks, and which tokens are allowed."""

import math
from dataclasses import replace

import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.hypothesis import Hypothesis, length_limits, next_log_probs, suppressed_ids
from pellucid.errors import DecodingError

CONFIG = ModelConfig(src_vocab_size=8, tgt_vocab_size=8, d_model=2, num_heads=1, max_positions=100)
SRC = torch.tensor([[3, 4, 5, 2], [3, 2, 0, 0], [2, 0, 0, 0]])


def test_a_translation_may_have_twice_the_sources_tokens_and_50() -> None:
    assert length_limits(SRC, DecodeConfig(), CONFIG) == [56, 52, 50]
    assert length_limits(SRC, DecodeConfig(), replace(CONFIG, pad_id=None)) == [56, 56, 56]


def test_max_length_and_positions_are_upper_bounds() -> None:
    assert length_limits(SRC, DecodeConfig(max_length=7), CONFIG) == [7, 7, 7]
    assert length_limits(SRC, DecodeConfig(max_length=500), CONFIG) == [99, 99, 99]
    assert length_limits(SRC, DecodeConfig(), replace(CONFIG, max_positions=53)) == [52, 52, 50]


@pytest.mark.parametrize(
    ("pad_id", "bos_id", "eos_id", "suppressed"),
    [(0, 1, 2, [0, 1]), (None, 1, 2, [1]), (1, 2, 2, [1]), (5, 5, 0, [5]), (4096, 1, 2, [1])],
)
def test_padding_and_start_are_suppressed(pad_id: int | None, bos_id: int, eos_id: int, suppressed: list[int]) -> None:
    config = replace(CONFIG, pad_id=pad_id, bos_id=bos_id, eos_id=eos_id)
    assert suppressed_ids(config) == suppressed
    log_probs = next_log_probs(torch.zeros(1, 1, 8), [False], config)
    assert (log_probs == -torch.inf).nonzero()[:, 2].tolist() == suppressed
    assert log_probs[0, 0, eos_id] == pytest.approx(-math.log(8))  # nothing is spread over the others


def test_at_its_limit_a_sentence_may_only_end() -> None:
    logits = torch.randn(2, 3, 8)
    free, limited = next_log_probs(logits, [False, False], CONFIG), next_log_probs(logits, [False, True], CONFIG)
    assert torch.equal(free[0], limited[0])
    assert torch.equal(limited[1].isfinite().nonzero()[:, 1], torch.tensor([2, 2, 2]))
    assert torch.equal(free[1, :, 2], limited[1, :, 2])


def test_a_half_precision_model_is_searched_in_single() -> None:
    log_probs = next_log_probs(torch.randn(1, 1, 8, dtype=torch.bfloat16), [False], CONFIG)
    assert log_probs.dtype == torch.float32


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_that_gives_no_numbers(value: float) -> None:
    logits = torch.zeros(2, 1, 8)
    logits[1, 0, 6] = value
    with pytest.raises(DecodingError, match=r"the model's output is not a number \(NaN\)") as caught:
        next_log_probs(logits, [False, False], CONFIG)
    assert caught.value.hint == "its weights are damaged, or `dtype` is too narrow: use float32"


@pytest.mark.parametrize(("length_penalty", "rank"), [(0.0, -6.0), (1.0, -2.0), (2.0, -2 / 3), (0.5, -6 / 3**0.5)])
def test_the_rank_counts_the_end_token(length_penalty: float, rank: float) -> None:
    assert Hypothesis([5, 6], -6.0).rank(length_penalty) == pytest.approx(rank)
