"""Beam search wide enough to drop nothing finds the true optimum, and each score is the model's own."""

from functools import partial

import pytest
import torch

from pellucid.config import DecodeConfig
from pellucid.decoding.batched_search import search
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.scoring import score_outputs
from pellucid.model.transformer import Transformer
from tests.rounding import NETWORK
from tests.unit.decoding.models import (
    BOS,
    EOS,
    all_targets,
    beam_found,
    greedy_found,
    random_model,
    random_script,
    random_sources,
    scripted,
    source_batch,
)
from tests.unit.decoding.reference import plain_search

PENALTIES = [0.0, 0.6, 1.0, 2.0, -0.5]


def all_scores(model: Transformer, source: list[int], targets: list[list[int]]) -> list[float]:
    """The log-probability of each target, end token included, by one pass of the decoder over each."""
    scores = []
    src = torch.tensor([[*source, EOS]])
    with torch.inference_mode():
        memory = model.encode(src)
        for target in targets:
            log_probs = model.decode(torch.tensor([[BOS, *target]]), memory, src).double().log_softmax(dim=-1)
            scores.append(float(sum(log_probs[0, i, word] for i, word in enumerate([*target, EOS]))))
    return scores


@pytest.mark.parametrize(("vocab_size", "max_length", "width"), [(6, 3, 40), (6, 3, 47), (5, 4, 31), (4, 5, 90)])
@pytest.mark.parametrize("seed", range(2))
def test_an_exhaustive_beam_finds_the_optimum(vocab_size: int, max_length: int, width: int, seed: int) -> None:
    model = random_model(seed, vocab_size)
    source = [3] * seed
    targets = all_targets(vocab_size, max_length)
    hypotheses = [Hypothesis(*pair) for pair in zip(targets, all_scores(model, source, targets), strict=True)]
    assert width >= len(hypotheses)
    for length_penalty in PENALTIES:
        ranked = sorted(hypotheses, key=lambda h: -h.score / (len(h.ids) + 1) ** length_penalty)
        for n_best in (1, 3, len(hypotheses)):
            config = DecodeConfig(beam_size=width, n_best=n_best, max_length=max_length, length_penalty=length_penalty)
            (found,) = search(model, [source], config)
            assert [h.ids for h in found] == [h.ids for h in ranked[:n_best]]
            assert [h.score for h in found] == pytest.approx([h.score for h in ranked[:n_best]], abs=NETWORK)


@pytest.mark.parametrize(("width", "n_best"), [(2, 1), (3, 2), (5, 1)])
@pytest.mark.parametrize("clumps", [False, True])
def test_the_early_exit_changes_nothing(width: int, n_best: int, clumps: bool) -> None:
    vocab_size, limit = 7, 6
    for seed in range(3):
        script = random_script(seed, vocab_size, sharpness=3.0, clumps=clumps)
        sources = random_sources(seed, 3, vocab_size)
        for length_penalty in PENALTIES:
            config = DecodeConfig(beam_size=width, n_best=n_best, max_length=limit, length_penalty=length_penalty)
            found = beam_found(scripted(script, vocab_size), source_batch(sources), config)
            for source, sentence in zip(sources, found, strict=True):
                expected = plain_search(partial(script, tuple(source)), limit, config)
                assert [tuple(h.ids) for h in sentence.hypotheses] == [ids for ids, _ in expected]
                assert [h.score for h in sentence.hypotheses] == pytest.approx([s for _, s in expected], abs=NETWORK)


def test_a_beam_of_one_is_greedy_search() -> None:
    lengths = set()
    for seed in range(4):
        model = random_model(seed, sharpness=3.0)
        src = source_batch(random_sources(seed, 6))
        greedy = [f.hypotheses[0] for f in greedy_found(model, src, DecodeConfig(max_length=20))]
        beam = [f.hypotheses[0] for f in beam_found(model, src, DecodeConfig(beam_size=1, max_length=20))]
        assert [h.ids for h in beam] == [h.ids for h in greedy]
        assert [h.score for h in beam] == pytest.approx([h.score for h in greedy], abs=NETWORK)
        lengths |= {len(h.ids) for h in greedy}
    assert len(lengths) > 3


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_reported_score_is_the_forced_score(beam_size: int, norm: str) -> None:
    model = random_model(beam_size, sharpness=3.0, norm=norm)
    sources = random_sources(5, 8)
    found = search(model, sources, DecodeConfig(beam_size=beam_size, n_best=beam_size))
    pairs = [(source, h) for source, hypotheses in zip(sources, found, strict=True) for h in hypotheses]
    forced = score_outputs(model, [source for source, _ in pairs], [h.ids for _, h in pairs])
    assert [h.score for _, h in pairs] == pytest.approx(forced, abs=NETWORK)


@pytest.mark.parametrize("length_penalty", PENALTIES)
def test_the_n_best_are_sorted_and_distinct(length_penalty: float) -> None:
    model = random_model(3, sharpness=2.0)
    config = DecodeConfig(beam_size=6, n_best=6, length_penalty=length_penalty, max_length=12)
    for hypotheses in search(model, random_sources(1, 8), config):
        ranks = [h.rank(length_penalty) for h in hypotheses]
        assert ranks == sorted(ranks, reverse=True)
        assert len({tuple(h.ids) for h in hypotheses}) == len(hypotheses) == 6
