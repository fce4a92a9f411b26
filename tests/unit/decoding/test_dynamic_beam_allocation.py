"""Outputs that hold given terms: the best of all that do, whatever stands beside them."""

import pytest

from pellucid.config import DecodeConfig
from pellucid.decoding.batched_search import search
from pellucid.decoding.constraints import Constraints
from pellucid.decoding.scoring import score_outputs
from pellucid.decoding.terms import Term, TermTokens
from pellucid.errors import DecodingError
from tests.unit.decoding.models import all_targets, random_model, random_sources

WIDE = DecodeConfig(beam_size=60, max_length=4)  # drops nothing of what three words can make


def term(*spellings: tuple[int, ...], whole: bool = False) -> Term:
    return Term(tuple(TermTokens(ids, whole=whole) for ids in spellings))


def holds(ids: list[int], asked: Term, continues: frozenset[int]) -> bool:
    """Looks at every place, as plainly as can be."""
    for spelling in asked.spellings:
        size = len(spelling.ids)
        for place in range(len(ids) - size + 1):
            goes_on = spelling.whole and place + size < len(ids) and ids[place + size] in continues
            if tuple(ids[place : place + size]) == spelling.ids and not goes_on and not (spelling.starts and place):
                return True
    return False


CASES = {
    "one": [term((4,))],
    "several tokens": [term((4, 5, 3))],
    "two": [term((5,)), term((3, 4))],
    "overlapping": [term((3, 4)), term((4, 5))],
    "one begins the other": [term((3,)), term((3, 4))],
    "one within the other": [term((4,)), term((3, 4, 5))],
    "repeated tokens": [term((3, 3)), term((3, 3, 4))],
    "two spellings": [term((5, 5), (4,))],
    "a spelling of the beginning": [Term((TermTokens((5, 3)), TermTokens((4,), starts=True)))],
    "one that is not sought": [Term((TermTokens((5, 4)), TermTokens((3,), sought=False)))],
    "whole": [term((4,), whole=True)],
    "one spelling whole, the other not": [Term((TermTokens((4,), whole=True), TermTokens((3, 3))))],
    "whole within one that is not": [Term((TermTokens((4,), whole=True), TermTokens((3, 4))))],
    "whole and another": [term((3,), whole=True), term((5,))],
    "whole, and the other begins with what continues": [term((3,), whole=True), term((5, 4))],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
def test_the_best_is_that_of_all_outputs_that_hold_them(seed: int, name: str) -> None:
    model, sources, terms = random_model(seed, 6), [[3, 4, 5]], tuple(CASES[name])
    continues = frozenset({5})
    constraints = Constraints(terms=(terms,), continues=continues)
    found = search(model, sources, WIDE, constraints=constraints)
    kept = [target for target in all_targets(6, 4) if all(holds(target, one, continues) for one in terms)]
    for source, (best, *_) in zip(sources, found, strict=True):
        scores = score_outputs(model, [source] * len(kept), kept)
        score, target = max(zip(scores, kept, strict=True), key=lambda one: one[0] / (len(one[1]) + 1))
        assert (best.ids, best.score) == (target, pytest.approx(score, abs=1e-4))


def some_terms(place: int) -> list[Term]:
    two = [term((5,), whole=place > 4), term((6, 7, 8), (9,))]
    return ([], [term((3 + place, 4))], two, CASES["overlapping"])[place % 4]


@pytest.mark.parametrize("beam_size", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_each_output_holds_its_terms_whatever_stands_beside_it(beam_size: int) -> None:
    model, sources, continues = random_model(3), random_sources(3, 8, longest=6), frozenset({10, 11})
    terms = tuple(tuple(some_terms(place)) for place in range(8))
    constraints = Constraints(terms=terms, continues=continues)
    config = DecodeConfig(beam_size=beam_size, n_best=2, max_length=9)
    free = search(model, sources, config)
    together = search(model, sources, config, constraints=constraints)
    for place in range(8):
        alone = search(model, sources[place : place + 1], config, constraints=constraints.select([place]))[0]
        assert [h.ids for h in alone] == [h.ids for h in together[place]]
        assert all(holds(h.ids, one, continues) for h in alone for one in terms[place])
        if not terms[place]:
            assert [h.ids for h in together[place]] == [h.ids for h in free[place]]
    scores = score_outputs(model, sources, [found[0].ids for found in together])
    assert [found[0].score for found in together] == pytest.approx(scores, abs=1e-4)


def test_terms_fit_where_all_tokens_are_theirs() -> None:
    model = random_model(4)
    terms = ((term((3, 4)), term((5, 6)), term((7,))),)
    (found,) = search(model, [[3]], DecodeConfig(beam_size=2, max_length=5), constraints=Constraints(terms=terms))
    assert sorted(found[0].ids) == [3, 4, 5, 6, 7]


def test_what_may_not_be_written_does_not_hang() -> None:
    model = random_model(5)
    constraints = Constraints(terms=((term((3, 3, 3)),),), no_repeat_ngram_size=1)
    (found,) = search(model, [[3, 4]], DecodeConfig(beam_size=3, max_length=6), constraints=constraints)
    assert len(set(found[0].ids)) == len(found[0].ids)


def test_other_constraints_hold_beside_terms() -> None:
    model = random_model(6)
    constraints = Constraints(terms=((term((9, 8)),),), prefixes=((4, 9),), min_length=7)
    (found,) = search(model, [[3, 4]], DecodeConfig(beam_size=3, n_best=3), constraints=constraints)
    assert len(found) == 3
    for one in found:
        assert one.ids[:2] == [4, 9]
        assert len(one.ids) >= 7
        assert holds(one.ids, term((9, 8)), frozenset())


def test_what_cannot_heed_terms() -> None:
    model, constraints = random_model(1), Constraints(terms=((term((3,)),),))
    with pytest.raises(DecodingError, match="terms require beam search, and `beam_size` is 1"):
        search(model, [[3]], DecodeConfig(beam_size=1), constraints=constraints)
    with pytest.raises(DecodingError, match="a custom search does not support terms"):
        search(model, [[3]], DecodeConfig(beam_size=2), lambda steps, config: [], constraints=constraints)
