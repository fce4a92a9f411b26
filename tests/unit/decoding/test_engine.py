"""The engine: results in the input's order, batches within the budget."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.engine import batches_by_length, sample_outputs, score_outputs, search
from pellucid.decoding.hypothesis import Hypothesis
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


@given(
    shapes=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=30),
    budget=st.integers(1, 200),
    padded=st.booleans(),
)
def test_batches(shapes: list[tuple[int, int]], budget: int, padded: bool) -> None:
    batches = list(batches_by_length(shapes, budget, padded))
    assert sorted(place for batch in batches for place in batch) == list(range(len(shapes)))
    for batch in batches:
        longest = max(max(shapes[place]) for place in batch)
        assert len(batch) == 1 or len(batch) * (longest + 1) <= budget
        assert padded or len({shapes[place] for place in batch}) == 1
    sizes = [max(max(shapes[place]) for place in batch) for batch in batches]
    assert sizes == sorted(sizes, reverse=True)
    if padded:  # what comes next would not have fitted
        assert all((len(batch) + 1) * (max(shapes[batch[0]]) + 1) > budget for batch in batches[:-1])
