"""The fractional factorial, and what it tells of a response."""

import pytest

from pellucid.sweep.design import fractional_factorial, main_effects


def test_each_factor_is_balanced_and_none_goes_with_another() -> None:
    signs = [[2 * level - 1 for level in row] for row in fractional_factorial(7)]
    for a in range(7):
        assert sum(row[a] for row in signs) == 0
        for b in range(a):
            assert sum(row[a] * row[b] for row in signs) == 0


def test_three_factors_are_tried_in_all_combinations() -> None:
    assert len({*fractional_factorial(3)}) == 8


def test_effects_of_an_additive_response_are_found_exactly() -> None:
    effects = [3.0, -1.0, 0.5, 0.0, 2.0, -4.0, 0.25]
    levels = fractional_factorial(7)
    responses = [30 + sum(e for e, level in zip(effects, row, strict=True) if level) for row in levels]
    assert main_effects(levels, responses) == pytest.approx(effects)
