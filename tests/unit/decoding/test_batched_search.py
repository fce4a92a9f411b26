"""The engine: results in the input's order, batches within the budget."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.batched_search import sample_outputs, search
from pellucid.decoding.beam import SearchFunction, beam_search
from pellucid.decoding.hypothesis import Hypothesis, SearchResult
from pellucid.decoding.scoring import score_outputs
from pellucid.decoding.steps import SearchState
from pellucid.errors import DecodingError
from tests.unit.decoding.models import EOS, Ids, random_model, random_script, random_sources, scripted

SOURCES = random_sources(4, 25)
NOISE = random_script(1, 12)


def copying(source: Ids, target: Ids) -> list[float]:
    """A script that copies its source, mixed with a little of another, so that nothing is equally probable."""
    wanted = source[len(target)] if len(target) < len(source) else EOS
    others = NOISE(source, target)
    return [20.0 if token == wanted else other for token, other in enumerate(others)]


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("batch_tokens", [1, 50, 10_000])
def test_results_come_in_the_inputs_order_and_batches_keep_the_budget(beam_size: int, batch_tokens: int) -> None:
    model = scripted(copying, 12)
    found = search(model, SOURCES, DecodeConfig(beam_size=beam_size, batch_tokens=batch_tokens))
    assert [hypotheses[0].ids for hypotheses in found] == SOURCES
    for batch, length in model.batches_seen:
        assert batch == 1 or batch * length * beam_size <= batch_tokens
    assert sum(batch for batch, _ in model.batches_seen) == len(SOURCES)


def test_sampled_results_come_in_the_inputs_order() -> None:
    found = sample_outputs(scripted(copying, 12), SOURCES, SamplingConfig(), DecodeConfig(batch_tokens=50))
    assert [hypothesis.ids for hypothesis in found] == SOURCES


def test_nothing_gives_nothing() -> None:
    model = random_model(0)
    assert search(model, [], DecodeConfig()) == []
    assert sample_outputs(model, [], SamplingConfig()) == []
    assert score_outputs(model, [], []) == []


def test_n_best() -> None:
    found = search(random_model(0), SOURCES[:4], DecodeConfig(beam_size=4, n_best=3, max_length=6))
    assert [len(hypotheses) for hypotheses in found] == [3, 3, 3, 3]
    assert all(isinstance(h, Hypothesis) for hypotheses in found for h in hypotheses)


def test_the_probabilities_of_all_outputs_sum_to_nearly_one() -> None:
    """Of a model of one word: that word, so many times; what is missing are padding, start, and longer outputs."""
    model = random_model(0, vocab_size=4)
    with torch.no_grad():
        model.output_projection.bias[:2] = -50.0
    scores = score_outputs(model, [[3]] * 60, [[3] * length for length in range(60)], DecodeConfig(batch_tokens=100))
    assert sum(map(math.exp, scores)) == pytest.approx(1, abs=0.02)


@pytest.mark.slow
def test_a_search_of_ones_own_takes_the_place_of_beam_search() -> None:
    """It sees each batch with the places of its texts, and what it gives comes back in the input's order."""
    seen = []

    def backwards(steps: SearchState, config: DecodeConfig) -> list[SearchResult]:
        seen.extend(steps.text_indices)
        return [SearchResult(found.hypotheses[::-1]) for found in beam_search(steps, config)]

    config = DecodeConfig(beam_size=3, n_best=3, max_length=6, batch_tokens=60)
    model = random_model(0)
    found = search(model, SOURCES, config, backwards, text_indices=range(100, 125))
    assert found == [hypotheses[::-1] for hypotheses in search(model, SOURCES, replace(config, batch_tokens=60))]
    assert sorted(seen) == list(range(100, 125))


def test_a_margin_of_ones_own_search_asks_for_another_alone() -> None:
    sizes = []

    def unsure(steps: SearchState, config: DecodeConfig) -> list[SearchResult]:
        found = beam_search(steps, config)
        sizes.append(len(found))
        return [
            SearchResult(f.hypotheses, 0.0 if place == 3 else 1.0)
            for place, f in zip(steps.text_indices, found, strict=True)
        ]

    search(random_model(0), SOURCES[:6], DecodeConfig(beam_size=2, max_length=4), unsure)
    assert sizes == [6, 1]


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([[Hypothesis([3], -1.0)]] * 2, r"it returned \[\[Hypothesis\(ids=\[3\], score=-1"),
        (None, "it returned None"),
        ([SearchResult([Hypothesis([3], -1.0)])], "it returned 1"),
        ([SearchResult([Hypothesis([3], -1.0)]), SearchResult([])], "one of them is empty"),
        ([SearchResult([Hypothesis([3], -1.0)]), SearchResult([[3]])], r"one holds \[3\]"),  # type: ignore[list-item]
    ],
)
def test_what_a_search_of_ones_own_must_return(results: Any, message: str) -> None:
    given: SearchFunction = lambda steps, config: results  # noqa: E731
    wanted = "^`search` must return a SearchResult with at least one hypothesis for each of its 2 outputs; "
    with pytest.raises(DecodingError, match=wanted + message) as caught:
        search(random_model(0), [[3], [4]], DecodeConfig(), given)
    assert caught.value.hint


def test_a_search_that_cannot_be_called() -> None:
    with pytest.raises(DecodingError, match=r"^`search` is a str, which cannot be called$"):
        search(random_model(0), [[3]], DecodeConfig(), "greedy")  # type: ignore[arg-type]
