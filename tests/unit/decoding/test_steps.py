"""Steps: limits, which tokens are allowed, and how outputs grow, change places and leave."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.decoding.hypothesis import SearchResult
from pellucid.decoding.ids import list_suppressed_ids
from pellucid.decoding.steps import SearchState, length_limits
from pellucid.errors import DecodingError
from tests.rounding import NETWORK
from tests.unit.decoding.models import (
    EOS,
    ScriptedCache,
    greedy_found,
    random_decoder,
    random_model,
    random_script,
    random_sources,
    scripted,
    source_batch,
)

CONFIG = ModelConfig(src_vocab_size=8, tgt_vocab_size=8, d_model=2, num_heads=1, max_positions=100)
SRC = torch.tensor([[3, 4, 5, 2], [3, 2, 0, 0], [2, 0, 0, 0]])


def test_a_translation_may_have_twice_the_sources_tokens_and_50() -> None:
    assert length_limits(SRC, DecodeConfig(), CONFIG) == [56, 52, 50]
    assert length_limits(SRC, DecodeConfig(), replace(CONFIG, pad_id=None)) == [56, 56, 56]


def test_max_length_and_positions_are_upper_bounds() -> None:
    assert length_limits(SRC, DecodeConfig(max_length=7), CONFIG) == [7, 7, 7]
    assert length_limits(SRC, DecodeConfig(max_length=500), CONFIG) == [99, 99, 99]
    assert length_limits(SRC, DecodeConfig(), replace(CONFIG, max_positions=53)) == [52, 52, 50]


class Fixed:
    """A model that gives the same logits (B, W, V) at each step."""

    def __init__(self, logits: torch.Tensor, **fields: Any) -> None:
        self.config, self.logits = replace(CONFIG, **fields), logits

    def start(self, ids: torch.Tensor, beam_size: int) -> ScriptedCache:
        return ScriptedCache([()] * len(ids), [[()] * beam_size for _ in ids])

    def step(self, tokens: torch.Tensor, cache: ScriptedCache) -> torch.Tensor:
        cache.length += 1
        return self.logits.clone()


def started(logits: torch.Tensor, **fields: Any) -> SearchState:
    steps = SearchState(Fixed(logits, **fields), SRC[: len(logits)], DecodeConfig())
    steps.start(logits.size(1))
    return steps


@pytest.mark.parametrize(
    ("pad_id", "bos_id", "eos_id", "suppressed"),
    [(0, 1, 2, [0, 1]), (None, 1, 2, [1]), (1, 2, 2, [1]), (5, 5, 0, [5]), (4096, 1, 2, [1])],
)
def test_padding_and_start_are_suppressed(pad_id: int | None, bos_id: int, eos_id: int, suppressed: list[int]) -> None:
    fields = {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id}
    assert list_suppressed_ids(replace(CONFIG, **fields)) == suppressed
    log_probs = started(torch.zeros(1, 1, 8), **fields).log_probs()
    assert (log_probs == -torch.inf).nonzero()[:, 2].tolist() == suppressed
    assert log_probs[0, 0, eos_id] == pytest.approx(-math.log(8))  # nothing is spread over the others


def test_at_its_limit_a_sentence_may_only_end() -> None:
    steps = started(torch.randn(3, 2, 8))
    free = steps.log_probs()
    for _ in range(52):
        steps.advance(torch.full((3, 2), 5))
    limited = steps.log_probs()
    assert steps.limits == [56, 52, 50]
    assert torch.equal(free[0], limited[0])
    for row in (1, 2):
        assert torch.equal(limited[row].isfinite().nonzero()[:, 1], torch.tensor([2, 2]))
        assert torch.equal(free[row, :, 2], limited[row, :, 2])


def test_a_half_precision_model_is_searched_in_single() -> None:
    assert started(torch.randn(1, 1, 8, dtype=torch.bfloat16)).log_probs().dtype == torch.float32


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_that_gives_no_numbers(value: float) -> None:
    logits = torch.zeros(2, 1, 8)
    logits[1, 0, 6] = value
    with pytest.raises(DecodingError, match=r"the model's output is not a number \(NaN\)") as caught:
        started(logits).log_probs()
    assert caught.value.hint == "its weights are damaged, or `dtype` is too narrow: use float32"


def most_probable(steps: SearchState, config: DecodeConfig) -> list[SearchResult]:
    """As the docstring of Steps has it."""
    found: dict[int, SearchResult] = {}
    steps.start(width=1)
    scores = torch.zeros(len(steps.rows))
    while steps.rows:
        best, tokens = steps.log_probs()[:, 0].max(dim=1)
        scores = scores + best
        done = (tokens == steps.eos_id).nonzero()[:, 0]
        for row, hypothesis in zip(done, steps.hypotheses(done, 0 * done, scores[done]), strict=True):
            found[steps.rows[row]] = SearchResult([hypothesis])
        steps.advance(tokens[:, None])
        going_on = (tokens != steps.eos_id).nonzero()[:, 0]
        steps.select(going_on)
        scores = scores[going_on]
    return [found[row] for row in range(len(found))]


def test_a_loop_over_steps_is_a_greedy_search() -> None:
    config = DecodeConfig(max_length=9, target_prefix=(5,))
    src = source_batch(random_sources(3, 7))
    model = random_model(2)
    pairs = zip(most_probable(SearchState(model, src, config), config), greedy_found(model, src, config), strict=True)
    for (found,), (expected,) in ((a.hypotheses, b.hypotheses) for a, b in pairs):
        assert found.ids == expected.ids
        assert found.prefix_length == 1
        assert found.score == pytest.approx(expected.score, abs=NETWORK)


@pytest.mark.slow
def test_hypotheses_change_places_and_outputs_leave() -> None:
    """What Steps holds after random moves is what those moves make of lists."""
    model = scripted(random_script(1, 9), 9)
    steps = SearchState(model, source_batch([[3], [4, 5], [6]]), DecodeConfig(target_prefix=(7, 8)))
    for _ in range(2):  # a search may begin again
        steps.start(3)
        assert (steps.rows, steps.length, steps.ids.shape) == ([0, 1, 2], 0, (3, 3, 0))
        texts: list[list[list[int]]] = [[[], [], []] for _ in range(3)]
        for keep in ([0, 1, 2], [2, 0], [1]):
            log_probs = steps.log_probs()
            for place, (row, hypotheses) in enumerate(zip(steps.rows, texts, strict=True)):
                source = ((3,), (4, 5), (6,))[row]
                for w, words in enumerate(hypotheses):
                    logits = torch.tensor(random_script(1, 9)(source, (7, 8, *words)))
                    expected = logits.log_softmax(0).index_fill(0, torch.tensor([0, 1]), -math.inf)
                    torch.testing.assert_close(log_probs[place, w], expected)
            tokens, parents = torch.randint(3, 9, (len(texts), 3)), torch.randint(0, 3, (len(texts), 3))
            steps.advance(tokens, parents)
            moved = [
                [[*row[parent], token] for parent, token in zip(ps, ts, strict=True)]
                for row, ps, ts in zip(texts, parents.tolist(), tokens.tolist(), strict=True)
            ]
            steps.select(torch.tensor(keep))
            texts = [moved[row] for row in keep]
            assert steps.ids.tolist() == texts
        assert steps.rows == [0]
        (found,) = steps.hypotheses(torch.tensor([0]), torch.tensor([2]), torch.tensor([-1.5]))
        assert (found.ids, found.score, found.prefix_length, found.ended) == (texts[0][2], -1.5, 2, True)


def test_a_text_at_its_limit_ends_for_nothing() -> None:
    steps = SearchState(random_decoder(), torch.tensor([[5, 6], [7, 8]]), DecodeConfig(max_length=2))
    steps.start(2)
    for number in range(3):
        log_probs = steps.log_probs()
        at = torch.tensor([1])
        assert [h.ended for h in steps.hypotheses(at, at, torch.zeros(1))] == [number < 2]
        if number < 2:
            assert log_probs.isfinite().sum() == 2 * 2 * 11
            steps.advance(torch.full((2, 2), 5))
    assert log_probs.isfinite().nonzero()[:, 2].tolist() == [EOS] * 4
    assert (log_probs[..., EOS] == 0).all()


@pytest.mark.parametrize("name", ["tokens", "parents"])
def test_a_shape_that_is_not_that_of_the_search(name: str) -> None:
    steps = started(torch.zeros(3, 2, 8))
    right, wrong = torch.full((3, 2), 1), torch.full((3, 1), 1)
    with pytest.raises(DecodingError) as caught:
        steps.advance(*((wrong, right) if name == "tokens" else (right, wrong)))
    assert str(caught.value) == f"`{name}` has shape (3, 1), but 3 outputs with 2 hypotheses each are under search"
    assert caught.value.hint == "pass a tensor (3, 2), or start with another `width`"


def test_a_search_begins_with_start() -> None:
    steps = SearchState(random_model(0), torch.tensor([[3, 4]]), DecodeConfig())
    for call in (steps.log_probs, lambda: steps.advance(torch.ones(1, 1, dtype=torch.long))):
        with pytest.raises(DecodingError, match=r"^the search has not begun$") as caught:
            call()
        assert caught.value.hint == "call steps.start(width) first"


def test_a_parent_that_is_none_of_the_hypotheses() -> None:
    steps = started(torch.zeros(3, 2, 8))
    tokens = torch.full((3, 2), 1)
    with pytest.raises(DecodingError, match=r"^`parents` cannot be continued: ") as caught:
        steps.advance(tokens, torch.tensor([[0, 1], [0, 2], [0, 0]]))
    assert caught.value.hint == "pass int64 from 0 to 1"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 3], "^`rows` holds 3; the batch has 3 rows$"),
        ([-1], "^`rows` holds -1; the batch has 3 rows$"),
        ([True, False, True], "^`rows` is a mask$"),
    ],
)
def test_rows_that_the_batch_does_not_have(rows: list[int], message: str) -> None:
    with pytest.raises(DecodingError, match=message):
        started(torch.zeros(3, 2, 8)).select(torch.tensor(rows))
