"""Minimum Bayes risk: the draw that is most like all draws, against the sum written out."""

import pytest
from sacrebleu.metrics.chrf import CHRF

from pellucid.evaluation.consensus import select_by_mbr

DRAWS = ["a dog runs", "a dog is running", "two cats", "a dog runs", "a dog ran", ""]


def test_it_has_the_highest_mean_against_all_draws() -> None:
    means = [sum(CHRF().sentence_score(one, [other]).score for other in DRAWS) for one in DRAWS]
    assert select_by_mbr(DRAWS) == means.index(max(means)) == 0
    assert select_by_mbr(DRAWS[::-1]) == 2
    assert select_by_mbr(["two cats", *DRAWS, "two cats", "two cats", "two cats"]) == 0


@pytest.mark.parametrize("texts", [["a"], ["", ""], ["same", "same"]])
def test_equal_draws(texts: list[str]) -> None:
    assert select_by_mbr(texts) == 0
