"""Sampling draws from the distribution that its settings describe, and from nothing else."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.batched_search import sample_outputs
from pellucid.decoding.hypothesis import SearchResult
from pellucid.decoding.sampling import filter_log_probs, sample
from pellucid.decoding.steps import SearchState
from pellucid.errors import ConfigError, DecodingError
from tests.unit.decoding.models import greedy_found, random_model, random_sources, scripted, source_batch

LOGITS = [0.0, 0.0, -2.0, 1.0, 0.4, -0.5, 0.1]
TEN = DecodeConfig(max_length=10)
DRAWS = 4000


def drawn_from(
    model: Any, src: torch.Tensor, sampling: SamplingConfig, places: list[int], decode: DecodeConfig | None = None
) -> list[SearchResult]:
    decode = decode or DecodeConfig()
    return sample(SearchState(model, src, decode, places), decode, sampling)


def draws(config: SamplingConfig) -> np.ndarray:
    """How often each first token was drawn from LOGITS, in `DRAWS` sentences; the end token counts as 2."""
    model = scripted(lambda source, target: LOGITS, 7)
    found = drawn_from(model, source_batch([[]] * DRAWS), config, list(range(DRAWS)), DecodeConfig(max_length=1))
    return np.bincount([f.hypotheses[0].ids[0] if f.hypotheses[0].ids else 2 for f in found], minlength=7)


def probabilities(temperature: float = 1.0, kept: tuple[int, ...] = (2, 3, 4, 5, 6)) -> np.ndarray:
    values = np.array([math.exp(LOGITS[i] / temperature) if i in kept else 0.0 for i in range(7)])
    return values / values.sum()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (SamplingConfig(), probabilities()),
        (SamplingConfig(seed=9, temperature=0.5), probabilities(0.5)),
        (SamplingConfig(temperature=3.0), probabilities(3.0)),
        (SamplingConfig(top_k=2), probabilities(kept=(3, 4))),
        (SamplingConfig(top_p=0.7), probabilities(kept=(3, 4, 6))),
        (SamplingConfig(top_k=4, top_p=0.72), probabilities(kept=(3, 4, 6))),
    ],
)
def test_draws_follow_the_distribution(config: SamplingConfig, expected: np.ndarray) -> None:
    counts = draws(config)
    assert counts[expected == 0].sum() == 0
    wanted = DRAWS * expected[expected > 0]
    statistic = ((counts[expected > 0] - wanted) ** 2 / wanted).sum()
    assert statistic < 25  # chi-square of at most 4 degrees of freedom: beyond it once in 20,000


def test_seeds_and_places_draw_independently() -> None:
    """One sentence's first two draws, and those of two seeds, agree as often as chance has it."""
    model = scripted(lambda source, target: [0.0, 0.0, -30.0, 0.0, 0.0], 5)
    places = list(range(1000))
    src, two = source_batch([[]] * 1000), DecodeConfig(max_length=2)
    first, second = (
        [f.hypotheses[0].ids for f in drawn_from(model, src, SamplingConfig(seed=seed), places, two)] for seed in (1, 2)
    )
    for agreeing in (
        sum(a[0] == b[0] for a, b in zip(first, second, strict=True)),
        sum(a[0] == a[1] for a in first),
        sum(a[0] == b[0] for a, b in zip(first[1:], first, strict=False)),
    ):
        assert 420 < agreeing < 580  # five deviations around 500
    again = drawn_from(model, src, SamplingConfig(seed=1), places, two)
    assert [f.hypotheses[0].ids for f in again] == first


@pytest.mark.parametrize("temperature", [1.0, 1e-12, 1e12])
def test_top_1_is_greedy_search(temperature: float) -> None:
    model = random_model(3, sharpness=2.0)
    src = source_batch(random_sources(3, 6))
    drawn = drawn_from(model, src, SamplingConfig(top_k=1, temperature=temperature), list(range(6)), TEN)
    greedy = greedy_found(model, src, TEN)
    assert [f.hypotheses for f in drawn] == [f.hypotheses for f in greedy]


def test_a_temperature_near_zero_is_greedy_search() -> None:
    model = random_model(3)
    src = source_batch(random_sources(3, 6))
    drawn = drawn_from(model, src, SamplingConfig(temperature=1e-40), list(range(6)), TEN)
    assert [f.hypotheses[0].ids for f in drawn] == [f.hypotheses[0].ids for f in greedy_found(model, src, TEN)]


@pytest.mark.parametrize(
    ("probs", "config", "kept"),
    [
        ([0.5, 0.25, 0.25], SamplingConfig(top_p=0.5), [0]),
        ([0.5, 0.25, 0.25], SamplingConfig(top_p=0.51), [0, 1]),
        ([0.25, 0.25, 0.5], SamplingConfig(top_p=0.75), [0, 2]),
        ([0.25, 0.25, 0.5], SamplingConfig(top_p=0.76), [0, 1, 2]),
        ([0.1, 0.6, 0.3], SamplingConfig(top_p=1e-9), [1]),
        ([0.25, 0.25, 0.25, 0.25], SamplingConfig(top_k=2), [0, 1]),
        ([0.1, 0.2, 0.3, 0.4], SamplingConfig(top_k=3), [1, 2, 3]),
        ([0.1, 0.2, 0.3, 0.4], SamplingConfig(top_k=99), [0, 1, 2, 3]),
        ([0.1, 0.2, 0.3, 0.4], SamplingConfig(top_k=2, top_p=0.6), [2, 3]),
        ([0.1, 0.2, 0.3, 0.4], SamplingConfig(top_k=2, top_p=0.57), [3]),  # 0.4 of 0.7 is more than 0.57
        ([0.4, 0.6, 0.0], SamplingConfig(), [0, 1]),
    ],
)
def test_filters_keep_exactly_the_right_tokens(probs: list[float], config: SamplingConfig, kept: list[int]) -> None:
    rows = torch.tensor([probs, probs[::-1][::-1]]).log()
    for row in filter_log_probs(rows, config):
        assert row.isfinite().nonzero()[:, 0].tolist() == kept
        ratios = torch.tensor([probs[i] for i in kept])
        assert torch.allclose(row[kept].softmax(dim=0), ratios / ratios.sum())


def test_the_score_is_the_models_own() -> None:
    model = scripted(lambda source, target: LOGITS if not target else [0.0, 0.0, 40.0, 0.0, 0.0, 0.0, 0.0], 7)
    (found,) = drawn_from(model, source_batch([[3]]), SamplingConfig(top_k=1, temperature=3.0), [0])
    assert found.hypotheses[0].ids == [3]
    assert found.hypotheses[0].score == pytest.approx(1 - math.log(sum(map(math.exp, LOGITS))), abs=1e-5)


def test_places_are_those_of_the_whole_input() -> None:
    model = random_model(2, sharpness=1.0)
    sources = [[3, 4], [5], [3, 4], [6, 7, 8], [3, 4]]
    one_by_one = DecodeConfig(max_length=8, batch_tokens=1)
    found = sample_outputs(model, sources, SamplingConfig(), one_by_one)
    assert found == sample_outputs(model, [*sources, [9] * 5], SamplingConfig(), one_by_one)[:5]
    assert found[0] != found[2] or found[2] != found[4]


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"temperature": 0.0}, DecodingError, r"`temperature` \(0\.0\) must be above 0"),
        ({"temperature": -1.0}, DecodingError, r"`temperature` \(-1\.0\) must be above 0"),
        ({"temperature": math.nan}, ConfigError, r"`temperature` \(nan\) must be finite"),
        ({"temperature": math.inf}, ConfigError, r"`temperature` \(inf\) must be finite"),
        ({"temperature": "1"}, ConfigError, "`temperature` must be a number, not '1'"),
        ({"top_k": -3}, DecodingError, r"`top_k` \(-3\) must be at least 0"),
        ({"top_k": 1.5}, ConfigError, r"`top_k` must be a whole number, not 1\.5"),
        ({"seed": -1}, DecodingError, r"`seed` \(-1\) must be at least 0"),
        ({"top_p": 0.0}, DecodingError, r"`top_p` \(0\.0\) must be above 0 and at most 1"),
        ({"top_p": 1.01}, DecodingError, r"`top_p` \(1\.01\) must be above 0 and at most 1"),
    ],
)
def test_settings_that_cannot_work(fields: dict[str, float], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SamplingConfig(**fields)


def test_epsilon_leaves_what_is_improbable_out() -> None:
    probs = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.1, 0.4, 0.25, 0.25]])
    kept = filter_log_probs(probs.log(), SamplingConfig(epsilon_cutoff=0.2, temperature=2.0)) > -torch.inf
    assert kept.tolist() == [[True, True, False, False], [False, True, True, True]]
    assert (filter_log_probs(probs.log(), SamplingConfig(epsilon_cutoff=0.9)) > -torch.inf).sum(dim=1).tolist() == [
        1,
        1,
    ]
    with pytest.raises(DecodingError, match=r"`epsilon_cutoff` \(1.0\) must be at least 0 and below 1"):
        SamplingConfig(epsilon_cutoff=1.0)
