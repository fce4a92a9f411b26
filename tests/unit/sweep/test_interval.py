"""Student's t interval of a few values."""

import pytest

from pellucid.sweep.interval import Mean, t_quantile


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (7, 2.3646), (30, 2.0423)]
)
def test_the_quantile_is_that_of_the_tables(degrees: int, quantile: float) -> None:
    assert t_quantile(degrees) == pytest.approx(quantile, abs=5e-5)


def test_three_values_have_mean_and_half_width() -> None:
    found = Mean.from_values([40.0, 41.0, 42.0])
    assert found.value == 41.0
    assert found.half_width == pytest.approx(4.30265 / 3**0.5, rel=1e-5)  # their standard deviation is 1


def test_one_value_has_no_interval() -> None:
    assert Mean.from_values([40.0]) == Mean(40.0, None, 1)
