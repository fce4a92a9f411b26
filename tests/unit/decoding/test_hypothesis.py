"""Hypotheses rank by score and length."""

import pytest

from pellucid.decoding.hypothesis import Hypothesis


@pytest.mark.parametrize(("length_penalty", "rank"), [(0.0, -6.0), (1.0, -2.0), (2.0, -2 / 3), (0.5, -6 / 3**0.5)])
def test_the_rank_counts_the_end_token(length_penalty: float, rank: float) -> None:
    assert Hypothesis([5, 6], -6.0).rank(length_penalty) == pytest.approx(rank)


def test_a_text_that_was_cut_off_has_no_end_token_to_count() -> None:
    assert Hypothesis([5, 6], -6.0, ended=False).rank(1.0) == pytest.approx(-3.0)
    assert Hypothesis([5, 6], -6.0, prefix_length=1).length == 4
