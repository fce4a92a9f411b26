"""Constraints of a search: the best of the outputs that keep them, by the model's own probabilities."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from pellucid.config import DecodeConfig
from pellucid.decoding.batched_search import search
from pellucid.decoding.constraints import Constraints
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.scoring import score_outputs
from pellucid.decoding.terms import Term, TermTokens
from pellucid.errors import ConfigError
from tests.unit.decoding.models import EOS, Ids, all_targets, random_model, random_sources, scripted

WIDE = DecodeConfig(beam_size=40, max_length=4)  # drops nothing of what three words can make
PREFIXES = ((), (4,), (5, 3, 5), (3, 3, 3, 3))


def repeats(ids: list[int], size: int) -> bool:
    runs = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]
    return len(set(runs)) < len(runs)


@pytest.mark.parametrize(
    ("constraints", "keeps"),
    [
        (Constraints(min_length=3), lambda ids, _: len(ids) >= 3),
        (Constraints(min_length=9), lambda ids, _: len(ids) == 4),  # its limit wins
        (Constraints(no_repeat_ngram_size=1), lambda ids, _: not repeats(ids, 1)),
        (Constraints(no_repeat_ngram_size=2), lambda ids, _: not repeats(ids, 2)),
        (Constraints(prefixes=PREFIXES), lambda ids, place: tuple(ids[: len(PREFIXES[place])]) == PREFIXES[place]),
        (
            Constraints(prefixes=(*PREFIXES[:3], ()), min_length=2, no_repeat_ngram_size=3),
            lambda ids, place: (
                tuple(ids[: len(PREFIXES[place % 3])]) == PREFIXES[place % 3] and len(ids) >= 2 and not repeats(ids, 3)
            ),
        ),
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_best_is_that_of_all_outputs_that_keep_them(
    seed: int, constraints: Constraints, keeps: Callable[[list[int], int], bool]
) -> None:
    model, sources = random_model(seed, 6), [[3, 4, 5], [5], [4, 4, 3], [3]]
    found = search(model, sources, WIDE, constraints=constraints)
    for place, (source, (best, *_)) in enumerate(zip(sources, found, strict=True)):
        kept = [target for target in all_targets(6, 4) if keeps(target, place)]
        scores = score_outputs(model, [source] * len(kept), kept)
        score, target = max(zip(scores, kept, strict=True), key=lambda one: one[0] / (len(one[1]) + 1))
        assert (best.ids, best.score) == (target, pytest.approx(score, abs=1e-4))


@pytest.mark.slow
def test_neighbours_and_batches_change_nothing() -> None:
    model, sources = random_model(3), random_sources(3, 10, longest=6)
    prefixes = tuple(tuple(range(3, 3 + place % 4)) for place in range(10))
    constraints = Constraints(min_length=5, no_repeat_ngram_size=2, prefixes=prefixes)
    for beam_size in (1, 3):
        config = DecodeConfig(beam_size=beam_size)
        together = search(model, sources, config, constraints=constraints)
        for place in range(10):
            (alone,) = search(model, sources[place : place + 1], config, constraints=constraints.select([place]))
            assert ids(alone) == ids(together[place])
            assert tuple(alone[0].ids[: len(prefixes[place])]) == prefixes[place]
    assert all(not repeats(found[0].ids[3:], 2) for found in together)


def ids(hypotheses: list[Hypothesis]) -> list[list[int]]:
    return [hypothesis.ids for hypothesis in hypotheses]


@pytest.mark.slow
def test_what_asks_for_nothing_changes_nothing() -> None:
    model, sources = random_model(4), random_sources(4, 6)
    config = DecodeConfig(beam_size=3, n_best=3)
    assert search(model, sources, config, constraints=Constraints()) == search(model, sources, config)
    asked = Constraints(prefixes=((),) * 6)
    assert not asked
    assert search(model, sources, config, constraints=asked) == search(model, sources, config)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_an_output_that_may_not_go_on_ends(beam_size: int) -> None:
    """Three words, none of them twice, and no end before the tenth."""

    def never_ends(_: Ids, target: Ids) -> list[float]:
        return [-30.0 if token == EOS else -float(token + len(target)) for token in range(6)]

    model = scripted(never_ends, 6)
    (found,) = search(
        model, [[3]], DecodeConfig(beam_size=beam_size), constraints=Constraints(no_repeat_ngram_size=1, min_length=10)
    )
    assert sorted(found[0].ids) == [3, 4, 5]


def test_a_loop_is_broken() -> None:
    def loops(_: Ids, target: Ids) -> list[float]:
        wanted = 3 + len(target) % 2
        return [9.0 if token == wanted else -float(token) for token in range(8)]

    model, config = scripted(loops, 8), DecodeConfig(beam_size=1, max_length=12)
    (alone,) = search(model, [[3]], config)
    assert alone[0].ids == [3, 4] * 6
    (found,) = search(model, [[3]], config, constraints=Constraints(no_repeat_ngram_size=2))
    assert found[0].ids[:3] == [3, 4, 3]
    assert len(set(pairwise(found[0].ids))) == len(found[0].ids) - 1


@pytest.mark.parametrize("name", ["min_length", "no_repeat_ngram_size"])
@pytest.mark.parametrize("value", [-1, 1.5, True, 2**40])
def test_values_that_cannot_be(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"`{name}` \(.*\) must be a whole number from 0 to 1,048,576"):
        Constraints(**{name: value})  # type: ignore[arg-type]


def test_a_prefix_may_hold_terms_and_begin_them() -> None:
    whole = Term((TermTokens((5,), whole=True),))
    terms = ((Term((TermTokens((3, 4)),)), whole),) * 4
    constraints = Constraints(terms=terms, prefixes=((), (6, 3, 4), (6, 3), (5, 9)), continues=frozenset({9}))
    assert [constraints.count_missing_tokens(place) for place in range(4)] == [3, 1, 2, 3]
    assert [constraints.compute_min_length(place) for place in range(4)] == [3, 4, 4, 5]
    assert Constraints(prefixes=((6,),)).compute_min_length(0) == 1
