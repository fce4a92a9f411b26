"""Several models in one search: what comes out is the best by the mean of their log-probabilities."""

from copy import deepcopy
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.batched_search import sample_outputs, search
from pellucid.decoding.ensemble import Ensemble, EnsembleSource
from pellucid.decoding.scoring import score_outputs
from pellucid.decoding.steps import NonFiniteLogitsError
from pellucid.model.transformer import Transformer
from tests.unit.decoding.models import BOS, EOS, all_targets, random_model, random_sources

EXACT = DecodeConfig(beam_size=12, max_length=3)  # wide enough to keep all there is of a vocabulary of six


def ensemble(*models: Transformer, **fields: Any) -> Ensemble:
    return Ensemble(models, [DecodeConfig(**fields)] * len(models))


@torch.no_grad()
def best_of_all(models: list[Transformer], sources: list[list[int]]) -> tuple[list[int], float]:
    """The target of up to three words that has the best mean of log-probabilities a token, in double precision."""
    targets = all_targets(6, 3)
    given = torch.tensor([[BOS, *target, *[EOS] * (4 - len(target))] for target in targets])
    sums = torch.zeros(len(targets), dtype=torch.float64)
    for model, source in zip(models, sources, strict=True):
        logits = deepcopy(model).double()(torch.tensor([[*source, EOS]] * len(targets)), given[:, :-1])
        chosen = logits.log_softmax(dim=-1).gather(2, given[:, 1:, None])[:, :, 0]
        sums += torch.stack([row[: len(t) + 1].sum() for row, t in zip(chosen, targets, strict=True)])
    means = (sums / len(models)).tolist()
    score, target = max(zip(means, targets, strict=True), key=lambda one: one[0] / (len(one[1]) + 1))
    return target, score


@pytest.mark.slow
def test_the_best_is_that_of_all_outputs_by_the_mean_in_double_precision() -> None:
    models = [random_model(seed, 6).double() for seed in (1, 2, 3)]
    sources = random_sources(3, 8, 6)
    found = search(ensemble(*models), sources, EXACT)
    for source, (best, *_) in zip(sources, found, strict=True):
        target, score = best_of_all(models, [source] * 3)
        assert (best.ids, best.score) == (target, pytest.approx(score, abs=1e-5))
    alone = [[h[0].score for h in search(model, sources, EXACT)] for model in models]
    assert all(score not in scores for scores in alone for score in [h[0].score for h in found])


def test_each_model_reads_a_source_by_ids_of_its_own() -> None:
    models = [random_model(1, 6).double(), random_model(2, 6, src_vocab_size=20, pad_id=0).double()]
    sources = [
        EnsembleSource([3, 4], [[17, 9, 8, 3]]),
        EnsembleSource([5, 5, 3], [[19]]),
        EnsembleSource([3, 4], [[12, 5]]),
    ]
    found = search(ensemble(*models), sources, EXACT)
    for source, (best, *_) in zip(sources, found, strict=True):
        target, score = best_of_all(models, source.each)
        assert (best.ids, best.score) == (target, pytest.approx(score, abs=1e-5))
    assert found[0][0].score != found[2][0].score  # alike for the first model alone


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("count", [2, 3])
def test_a_model_with_itself_is_the_model(beam_size: int, count: int) -> None:
    model, sources = random_model(4), random_sources(4, 12)
    config = DecodeConfig(beam_size=beam_size, n_best=beam_size)
    together, alone = search(ensemble(*[model] * count), sources, config), search(model, sources, config)
    assert [[h.ids for h in one] for one in together] == [[h.ids for h in one] for one in alone]
    scores = [[h.score for one in found for h in one] for found in (together, alone)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


@pytest.mark.slow
def test_batches_change_nothing() -> None:
    models, sources = [random_model(5), random_model(6)], random_sources(7, 16, longest=6)
    for config in (DecodeConfig(beam_size=1), DecodeConfig(beam_size=3)):
        in_batches = search(ensemble(*models), sources, config)
        for source, hypotheses in zip(sources, in_batches, strict=True):
            assert search(ensemble(*models), [source], config)[0][0].ids == hypotheses[0].ids
    drawn = sample_outputs(ensemble(*models), sources, SamplingConfig(seed=3))
    one_by_one = [
        sample_outputs(ensemble(*models), [s], SamplingConfig(seed=3), None, [i]) for i, s in enumerate(sources)
    ]
    assert [h.ids for h in drawn] == [one.ids for (one,) in one_by_one]


def test_scores_are_the_mean_of_what_the_models_give() -> None:
    models, sources = [random_model(8), random_model(9)], random_sources(8, 6)
    best = [found[0] for found in search(ensemble(*models), sources, DecodeConfig(beam_size=2))]
    given = [score_outputs(model, sources, [h.ids for h in best]) for model in models]
    assert [h.score for h in best] == pytest.approx([sum(both) / 2 for both in zip(*given, strict=True)], abs=1e-4)


def test_the_fewest_positions_are_the_limit() -> None:
    models = [random_model(1), random_model(2, max_positions=6)]
    with torch.no_grad():
        for model in models:
            model.output_projection.bias[EOS] = -50.0  # which ends only where it has to
    found = search(ensemble(*models), [[3, 4, 5, 3]] * 2, DecodeConfig(beam_size=2))
    assert [len(one[0].ids) for one in found] == [5, 5]


def test_what_is_no_number_is_told() -> None:
    models = [random_model(1), random_model(2)]
    with torch.no_grad():
        models[1].output_projection.weight.fill_(torch.nan)
    with pytest.raises(NonFiniteLogitsError):
        search(ensemble(*models), [[3]], DecodeConfig(beam_size=1))
