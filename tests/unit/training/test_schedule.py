"""The learning rate: equation 3 of the paper, and the curves beside it."""

from itertools import pairwise
from typing import Any

import pytest

from pellucid.config import TrainConfig
from pellucid.errors import ConfigError
from pellucid.training.schedule import UNDECIDED, DecayPlan, learning_rate

SCHEDULES = ["noam", "inverse_sqrt", "linear", "cosine", "wsd", "constant"]
PEAK = 2e-3


def config(schedule: str, **fields: object) -> TrainConfig:
    rate = None if schedule == "noam" else PEAK
    return TrainConfig(**{"schedule": schedule, "learning_rate": rate, "warmup_steps": 40, "steps": 400} | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("d_model", [64, 512])
@pytest.mark.parametrize("warmup", [1, 7, 4000])
@pytest.mark.parametrize("step", [1, 2, 6, 7, 8, 3999, 4000, 4001, 100_000])
def test_noam_is_equation_3(step: int, warmup: int, d_model: int) -> None:
    expected = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    assert learning_rate(step, TrainConfig(warmup_steps=warmup), d_model) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warm_up_is_linear_and_ends_at_the_peak(schedule: str) -> None:
    settings = config(schedule)
    peak = learning_rate(40, settings, d_model=128)
    assert peak == pytest.approx((128 * 40) ** -0.5 if schedule == "noam" else PEAK)
    assert [learning_rate(step, settings, 128) for step in (1, 10, 20)] == pytest.approx(
        [peak / 40, peak / 4, peak / 2]
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_rate_goes_on_where_warm_up_ends(schedule: str) -> None:
    settings = config(schedule, warmup_steps=4000, steps=400_000)
    peak, after = (learning_rate(step, settings, 128) for step in (4000, 4001))
    assert peak * (1 - 1e-3) < after <= peak


@pytest.mark.parametrize("schedule", SCHEDULES[:-2])
def test_after_warm_up_the_rate_falls(schedule: str) -> None:
    settings = config(schedule)
    rates = [learning_rate(step, settings, 128) for step in range(40, 401)]
    assert all(now < before for before, now in pairwise(rates))
    assert rates[-1] > 0


def test_stable_stays_and_then_falls_in_a_line() -> None:
    settings = config("wsd", decay_fraction=0.25)
    assert {learning_rate(step, settings, 128) for step in (40, 41, 200, 300)} == {PEAK}
    assert [learning_rate(step, settings, 128) for step in (301, 351, 400, 401)] == pytest.approx(
        [PEAK * part / 101 for part in (100, 50, 1, 0)]
    )


def test_an_ending_decided_later_wins_over_the_planned_one() -> None:
    settings, ending = config("wsd"), DecayPlan(1000, 1500)
    assert learning_rate(1000, settings, 128, ending) == PEAK
    assert learning_rate(1250, settings, 128, ending) == pytest.approx(PEAK * 251 / 501)
    assert learning_rate(10**9, settings, 128, UNDECIDED) == PEAK


def test_a_fall_within_warm_up_starts_from_the_rate_there() -> None:
    rates = [learning_rate(step, config("wsd"), 128, DecayPlan(10, 19)) for step in range(1, 20)]
    assert rates[9] == pytest.approx(PEAK / 4)
    assert all(0 < now < before for before, now in pairwise(rates[9:]))


def test_constant_stays() -> None:
    assert {learning_rate(step, config("constant"), 128) for step in (40, 41, 200, 400)} == {PEAK}


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_linear_and_cosine_end_just_after_the_last_step(schedule: str) -> None:
    settings = config(schedule)
    assert learning_rate(401, settings, 128) == 0
    middle = learning_rate((401 + 40) // 2, settings, 128)
    assert middle == pytest.approx(PEAK / 2, rel=1e-2)
    assert 0 < learning_rate(400, settings, 128) < PEAK / 100


def test_inverse_sqrt_halves_when_the_steps_are_four_times_the_warm_up() -> None:
    assert learning_rate(160, config("inverse_sqrt"), 128) == pytest.approx(PEAK / 2)


def test_inverse_sqrt_without_a_rate_is_noam() -> None:
    same = [learning_rate(s, config("inverse_sqrt", learning_rate=None), 128) for s in (1, 40, 300)]
    assert same == [learning_rate(s, config("noam"), 128) for s in (1, 40, 300)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warm_up_may_take_all_steps(schedule: str) -> None:
    settings = config(schedule, warmup_steps=400)
    rates = [learning_rate(step, settings, 128) for step in range(1, 401)]
    assert rates == sorted(rates)
    assert rates[0] > 0


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_rate_may_end_above_zero(schedule: Any) -> None:
    config = TrainConfig(steps=100, warmup_steps=10, schedule=schedule, learning_rate=1e-2, final_learning_rate=1e-3)
    rates = [learning_rate(step, config, 8) for step in range(1, 102)]
    assert rates[9] == pytest.approx(1e-2)
    assert rates[100] == pytest.approx(1e-3), "just after the last step"
    assert rates[54] == pytest.approx(5.5e-3, rel=0.03), "half way"
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_what_a_final_rate_goes_with() -> None:
    with pytest.raises(ConfigError, match=r"^`final_learning_rate` \(0\.1\) has no effect with `schedule = \"noam\"`$"):
        TrainConfig(final_learning_rate=0.1)
    with pytest.raises(
        ConfigError, match=r"^`final_learning_rate` \(0\.1\) must be at most `learning_rate` \(0\.01\)$"
    ):
        TrainConfig(final_learning_rate=0.1, learning_rate=0.01, schedule="linear")
