"""A sentence's translation does not depend on its neighbours: not on the size of the batch, its order, nor padding."""

import pytest
from torch import Tensor

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.batched_search import NEAR_TIE, sample_outputs, search
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.scoring import score_outputs
from tests.rounding import NETWORK
from tests.unit.decoding.models import (
    beam_found,
    greedy_found,
    random_model,
    random_script,
    random_sources,
    scripted,
    source_batch,
)

BUDGETS = [30, 4096]
SOURCES = random_sources(7, 9)


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in hypotheses] for hypotheses in found] == [[h.ids for h in e] for e in expected]
    scores = [h.score for hypotheses in expected for h in hypotheses]
    assert [h.score for hypotheses in found for h in hypotheses] == pytest.approx(scores, abs=NETWORK)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("pad_id", [0, None])
def test_neighbours_and_budget(seed: int, beam_size: int, pad_id: int | None) -> None:
    model = random_model(seed, sharpness=2.0, pad_id=pad_id, positions=["sinusoidal", "learned"][seed % 2])
    config = DecodeConfig(beam_size=beam_size, n_best=min(2, beam_size), max_length=8)
    alone = [search(model, [source], config)[0] for source in SOURCES]
    for budget in BUDGETS:
        options = DecodeConfig(beam_size=beam_size, n_best=config.n_best, max_length=8, batch_tokens=budget)
        assert_same(search(model, SOURCES, options), alone)
        assert_same(search(model, SOURCES[::-1], options)[::-1], alone)
        assert_same(search(model, SOURCES[::3], options), alone[::3])


@pytest.mark.parametrize("pad_id", [0, None])
def test_forced_scores(pad_id: int | None) -> None:
    model = random_model(1, sharpness=2.0, pad_id=pad_id)
    targets = random_sources(8, len(SOURCES))
    alone = [score_outputs(model, [s], [t])[0] for s, t in zip(SOURCES, targets, strict=True)]
    for budget in BUDGETS:
        scores = score_outputs(model, SOURCES, targets, DecodeConfig(batch_tokens=budget))
        assert scores == pytest.approx(alone, abs=NETWORK)


@pytest.mark.parametrize("vocab_size", [12, 500])
def test_the_same_seed_draws_the_same(vocab_size: int) -> None:
    model = random_model(2, vocab_size, sharpness=1.0)
    config = SamplingConfig(seed=5, temperature=1.2, top_p=0.98)
    outputs = [[h] for h in sample_outputs(model, SOURCES, config, DecodeConfig(max_length=8, batch_tokens=1))]
    for budget in BUDGETS:
        decode = DecodeConfig(max_length=8, batch_tokens=budget)
        assert_same([[h] for h in sample_outputs(model, SOURCES, config, decode)], outputs)
    longer = sample_outputs(model, [*SOURCES, [3] * 20], config, DecodeConfig(max_length=8))
    assert_same([[h] for h in longer[:-1]], outputs)


def disturb(logits: Tensor) -> Tensor:
    """Raises token 3 by a hair in batches of several sentences and lowers it in batches of one, as rounding may."""
    logits[..., 3] += 1e-6 if logits.size(0) > 1 else -1e-6
    return logits


def near_tie(source: tuple[int, ...], target: tuple[int, ...]) -> list[float]:
    """Two first words that are equally probable; then the end."""
    return [-9.0, -9.0, 9.0, -9.0, -9.0, -9.0] if target else [-9.0, -9.0, -9.0, 1.0, 1.0, -9.0]


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_near_tie_is_decided_alone(beam_size: int) -> None:
    model = scripted(near_tie, 6, disturb=disturb)
    config = DecodeConfig(beam_size=beam_size, max_length=3)
    two = source_batch([[3], [4]])
    raw = greedy_found(model, two, config) if beam_size == 1 else beam_found(model, two, config)
    assert [f.hypotheses[0].ids for f in raw] == [[3], [3]]  # not what either gives alone
    assert all(f.margin < NEAR_TIE for f in raw)
    for sources in ([[3]], [[3], [4]], [[3], [4], [5], [4, 4]]):
        assert [found[0].ids for found in search(model, sources, config)] == [[4]] * len(sources)
    model.batches_seen.clear()
    search(model, [[3]], config)
    assert model.batches_seen == [(1, 2)]  # what was alone is not searched again


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_clear_choice_is_not_searched_twice(beam_size: int) -> None:
    model = scripted(random_script(2, 6), 6)
    search(model, [[3], [4], [5]], DecodeConfig(beam_size=beam_size, max_length=3))
    assert model.batches_seen == [(3, 2)]
