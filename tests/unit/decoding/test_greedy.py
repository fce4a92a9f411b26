"""Greedy search: the most probable token, the lower id of equal ones, and a batch that shrinks."""

import math

import pytest
import torch

from pellucid.config import DecodeConfig
from pellucid.decoding.greedy import greedy_search
from tests.unit.decoding.models import EOS, Ids, random_model, random_sources, scripted, source_batch


def test_the_most_probable_token_at_each_step() -> None:
    steps = [[9.0, 9.0, 0.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.5, 0.0], [0.0, 0.0, 3.0, 0.0, 0.0]]
    (found,) = greedy_search(scripted(lambda source, target: steps[len(target)], 5), source_batch([[3]]))
    chosen = [(2.0, steps[0]), (0.5, steps[1]), (3.0, steps[2])]
    score = sum(best - math.log(sum(map(math.exp, logits))) for best, logits in chosen)
    assert found.hypotheses[0].ids == [4, 3]
    assert found.hypotheses[0].score == pytest.approx(score, abs=1e-5)
    assert found.margin == pytest.approx(0.5)  # the end was second in the second step


def test_equal_probabilities_give_the_lower_id() -> None:
    model = random_model(1, vocab_size=40)
    with torch.no_grad():
        model.output_projection.weight[30:40] = model.output_projection.weight[20:30]
        model.output_projection.bias[20:40] = 5.0
    found = greedy_search(model, source_batch(random_sources(1, 6)), DecodeConfig(max_length=10))
    words = {word for f in found for word in f.hypotheses[0].ids}
    assert words & set(range(20, 30))
    assert not words & set(range(30, 40))
    assert all(f.margin == 0 for f in found if f.hypotheses[0].ids)


def test_finished_sentences_leave_the_batch() -> None:
    def logits(source: Ids, target: Ids) -> list[float]:
        return [0.0, 0.0, 9.0 if len(target) == len(source) else -9.0, 0.0, 1.0]

    model = scripted(logits, 5)
    found = greedy_search(model, source_batch([[3, 3], [], [3, 3, 3], [3]]))
    assert [len(f.hypotheses[0].ids) for f in found] == [2, 0, 3, 1]
    assert model.rows_seen == [4, 3, 2, 1]


def test_limits() -> None:
    model = scripted(lambda source, target: [0.0, 0.0, -9.0, 1.0], 4, max_positions=53)
    found = greedy_search(model, source_batch([[], [3], [3] * 9]))
    assert [len(f.hypotheses[0].ids) for f in found] == [50, 52, 52]
    found = greedy_search(model, source_batch([[], [3]]), DecodeConfig(max_length=2))
    assert [len(f.hypotheses[0].ids) for f in found] == [2, 2]


def test_preferences_choose_and_log_probabilities_count() -> None:
    model = scripted(lambda source, target: [0.0] * 4 + [5.0], 5)
    seen = []

    def prefer_three(log_probs: torch.Tensor, rows: list[int]) -> torch.Tensor:
        seen.append(rows)
        wanted = torch.full_like(log_probs, -1.0)
        wanted[:, 3] = 0.0
        return wanted + log_probs.masked_fill(log_probs.isfinite(), 0.0)

    found = greedy_search(model, source_batch([[3], [4]]), DecodeConfig(max_length=2), prefer_three)
    total = math.log(4 + math.exp(5.0))
    assert [f.hypotheses[0].ids for f in found] == [[3, 3], [3, 3]]
    assert [f.hypotheses[0].score for f in found] == pytest.approx([-3 * total] * 2, abs=1e-5)
    assert seen == [[0, 1]] * 3
    assert EOS not in found[0].hypotheses[0].ids
