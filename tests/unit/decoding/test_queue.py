"""A search that looks at its device every eight steps alone: the same results, and nothing waited for in between."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding import batched_search, beam, fast_step, steps
from pellucid.decoding.beam import LOOK_EVERY, first_largest
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.steps import NonFiniteLogitsError, SearchState
from tests.rounding import NETWORK
from tests.unit.decoding.models import (
    beam_found,
    greedy_found,
    random_decoder,
    random_model,
    random_script,
    random_sources,
    scripted,
    source_batch,
)

Queued = Callable[..., None]
OPTIONS: list[dict[str, Any]] = [
    {"beam_size": 1},
    {"beam_size": 4},
    {"beam_size": 3, "n_best": 3, "length_penalty": 0.0},
    {"beam_size": 5, "n_best": 2, "length_penalty": 2.0, "target_prefix": (5, 4)},
    {"beam_size": 2, "suppress_tokens": (4, 7), "max_length": 3},
    {"beam_size": 3, "max_length": 8},
    {"beam_size": 1, "max_length": 1},
]


def assert_alike(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[(h.ids, h.ended, h.length) for h in some] for some in found] == [
        [(h.ids, h.ended, h.length) for h in some] for some in expected
    ]
    scores = [[h.score for some in each for h in some] for each in (found, expected)]
    assert scores[0] == pytest.approx(scores[1], abs=NETWORK)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_translations_are_the_same(options: dict[str, Any], queued: Queued) -> None:
    texts = random_sources(4, 7)
    for fields in ({}, {"max_positions": 15}, {"pad_id": None}):
        model, config = random_model(3, **fields), DecodeConfig(**options)
        expected = batched_search.search(model, texts, config)
        queued("cpu")
        assert_alike(batched_search.search(model, texts, config), expected)
        queued()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("sampling", [None, SamplingConfig(seed=4, temperature=1.3, top_k=8, top_p=0.9)])
def test_prompts_are_continued_alike(options: dict[str, Any], sampling: SamplingConfig | None, queued: Queued) -> None:
    """With 20 tokens beyond 12 positions a text goes on with its last part alone."""
    texts = [[5, 6], [7], [3, 4, 5, 6, 7, 8], [9, 3], [4]]
    prefix_free = {name: value for name, value in options.items() if name != "target_prefix"}
    model, config = random_decoder(1, sharpness=2.0), DecodeConfig(**{"max_length": 20} | prefix_free)

    def found() -> list[list[Hypothesis]]:
        if sampling is None:
            return batched_search.search(model, texts, config)
        return [[one] for one in batched_search.sample_outputs(model, texts, sampling, config)]

    expected = found()
    queued("cpu")
    assert_alike(found(), expected)


@pytest.mark.parametrize("width", [1, 4])
def test_margins_are_the_same(width: int, queued: Queued) -> None:
    """Of scripted models, whose digits do not depend on the rows: as near as its margin, and not one nearer."""
    for seed in range(2):
        model, src = scripted(random_script(seed, 9, clumps=True), 9), source_batch(random_sources(seed, 4, 9))
        config = DecodeConfig(beam_size=width, n_best=width)
        expected = beam_found(model, src, config)
        queued("cpu")
        assert beam_found(model, src, config) == expected
        queued()


def test_whoever_watches_sees_each_step(queued: Queued) -> None:
    queued("cpu")
    seen: list[Any] = []
    (found,) = greedy_found(random_model(3), source_batch([[4, 5]]), watch=seen.append)
    assert len(seen) == len(found.hypotheses[0].ids) + 1


def test_no_more_steps_than_the_limit_allows(queued: Queued) -> None:
    queued("cpu")
    never_ending = scripted(lambda source, target: [0.0, 0.0, -9.0, 3.0, 2.0, 1.0], 6)
    beam_found(never_ending, source_batch([[3], [4]]), DecodeConfig(beam_size=2, max_length=10))
    assert never_ending.rows_seen == 11 * [2]


NONE = torch.tensor([], dtype=torch.long)


@pytest.mark.parametrize(
    "look",
    [
        lambda searched: searched.select(torch.tensor([0])),
        lambda searched: searched.hypotheses(NONE, NONE, NONE),
        lambda searched: beam.greedy_search(searched, DecodeConfig()),
    ],
    ids=["select", "hypotheses", "a search"],
)
def test_a_model_that_gives_no_numbers_is_told_at_the_next_look(
    look: Callable[[SearchState], Any], queued: Queued
) -> None:
    queued("cpu")
    searched = SearchState(scripted(lambda source, target: [torch.nan] * 6, 6), source_batch([[3]]), DecodeConfig())
    searched.start(1)
    searched.log_probs()
    with pytest.raises(NonFiniteLogitsError, match=r"the model's output is not a number \(NaN\)"):
        look(searched)


class LookedError(Exception):
    """Says that the search wants to look."""


@pytest.mark.slow
@pytest.mark.parametrize(("width", "plain", "size"), [(1, True, 5000), (5, False, 12), (5, True, 5000)])
def test_nothing_is_waited_for_between_two_looks(
    width: int, plain: bool, size: int, queued: Queued, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On tensors that hold no numbers: to wait for one, or to look for places, is an error."""
    queued("meta")
    monkeypatch.setattr(steps, "length_limits", lambda given, *_: [20, 3][: len(given)])  # asked once, before
    monkeypatch.setattr(fast_step, "_can_stand_in", lambda *_: plain)  # it looks once, before

    def look(*_: object) -> None:
        raise LookedError

    monkeypatch.setattr(beam, "_copy_to_cpu", look)
    monkeypatch.setattr(SearchState, "check_numbers", lambda _: None)
    model, src = random_model(1, size).to("meta"), source_batch([[3, 4], [5]]).to("meta")
    searched = SearchState(model, src, DecodeConfig())
    with torch.inference_mode(), pytest.raises(LookedError):
        (beam.greedy_search if width == 1 else beam.beam_search)(searched, DecodeConfig(beam_size=width))
    assert searched.length == LOOK_EVERY
    queued()
    with torch.inference_mode(), pytest.raises((RuntimeError, NotImplementedError)):
        beam.beam_search(SearchState(model, src, DecodeConfig()), DecodeConfig(beam_size=width))


@given(st.data())
def test_first_largest_ranks_as_a_stable_sort_does(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([1, 5, 64, 130, 64 * 9, 64 * 9 + 7]))
    k = data.draw(st.integers(1, min(size, 11)))
    levels = data.draw(st.sampled_from([1, 2, 50, 10**6]))
    draw = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    values = torch.randint(0, levels, (3, size), generator=draw).float()
    values[1, 2:] = -torch.inf
    expected = values.sort(dim=1, descending=True, stable=True)
    top, places = first_largest(values, k)
    assert torch.equal(places, expected.indices[:, :k])
    assert torch.equal(top, expected.values[:, :k])
