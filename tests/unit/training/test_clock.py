"""The clock's decision, on a clock of the test's own: when the fall begins, and whether the run ends in time."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from pellucid.training.schedule import LEAVING, MARGIN, SHORTEST, BudgetClock, DecayPlan


@dataclass
class Machine:
    """Runs steps of a given cost against the clock, as the loop does."""

    clock: BudgetClock
    step_seconds: float
    validate_every: int = 0
    validation_seconds: float = 0.0
    time: list[float] = field(default_factory=lambda: [0.0])

    slower: float = 1.0
    """How many times as long as before a step of the fall takes."""

    def run(self, step: int = 0) -> tuple[int, DecayPlan]:
        """The step of the decision, and the ending; afterwards `time` is when the last step was done."""
        decided, ending = self.decide(step)
        step = decided
        while step < ending.last_step:
            step = self._step(step)
        return decided, ending

    def decide(self, step: int = 0) -> tuple[int, DecayPlan]:
        """The step after which the rate falls, and the ending."""
        ending = None
        while ending is None:
            step = self._step(step)
            ending = self.clock.plan_ending(step)
        return step, ending

    def fall(self, step: int, ending: DecayPlan) -> list[tuple[int, DecayPlan]]:
        """The endings of a fall that the clock watches, with the steps after which they were decided."""
        self.clock.falls(ending, step)
        self.step_seconds *= self.slower
        found = [(step, ending)]
        while step < found[-1][1].last_step:
            step = self._step(step)
            if sooner := self.clock.shorten_decay(found[-1][1], step):
                self.clock.falls(sooner, step)
                found.append((step, sooner))
        return found

    def _step(self, step: int) -> int:
        step += 1
        self.time[0] += self.step_seconds * (10 if step == 1 else 1)
        if self.validate_every and step % self.validate_every == 0:
            self.time[0] += self.validation_seconds
            self.clock.add_validation_time(self.validation_seconds)
        return step


def machine(budget: float, step_seconds: float, used: float = 0.0, **fields: float) -> Machine:
    time = [0.0]
    clock = BudgetClock(budget, decay_fraction=0.4, started=0.0, used=used, now=lambda: time[0])
    return Machine(clock, step_seconds, time=time, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("step_seconds", [0.01, 0.1, 0.7])
@pytest.mark.parametrize("budget", [60.0, 180.0, 3600.0])
def test_ends_in_time_and_uses_it(budget: float, step_seconds: float) -> None:
    pace = machine(budget, step_seconds)
    decided, ending = pace.run()
    assert ending.decay_start == decided
    assert budget * 0.93 - LEAVING - step_seconds < pace.time[0] <= budget - LEAVING
    assert (ending.last_step - decided) / ending.last_step == pytest.approx(0.4, abs=0.03)


def test_keeps_time_for_the_validations_after_the_last_step() -> None:
    pace = machine(300.0, 0.1, validate_every=200, validation_seconds=5.0)
    pace.run()
    assert 300 * 0.92 < pace.time[0] + 2 * 5.0 + LEAVING <= 300


def test_a_resumed_run_has_only_what_is_left() -> None:
    pace = machine(300.0, 0.1, used=200.0)
    decided, ending = pace.run(step=1500)
    assert pace.time[0] <= 100 - LEAVING
    whole = 1500 + (100 - LEAVING) / 0.1
    assert ending.last_step == pytest.approx(whole, rel=0.05)
    assert decided == pytest.approx(0.6 * whole, rel=0.05)


@pytest.mark.parametrize("used", [0.0, 500.0])
def test_without_time_the_run_ends_at_once(used: float) -> None:
    pace = machine(LEAVING if not used else 300.0, 0.1, used=used)
    assert pace.run(step=70) == (71, DecayPlan(71, 72))


def test_a_margin_is_kept() -> None:
    pace = machine(1000.0, 1.0)
    decided, ending = pace.run()
    left = 1000 - LEAVING - (decided + 9)
    assert ending.last_step - decided == int(left * MARGIN)


def test_keeps_time_for_choosing_the_model() -> None:
    """Four candidates on three times as many sentences: twelve validations more than the last one."""
    pace = machine(300.0, 0.1, validate_every=200, validation_seconds=2.0)
    pace.clock.validations_after = 12.0
    pace.run()
    assert pace.time[0] + 13 * 2.0 + LEAVING <= 300


@pytest.mark.parametrize("validation_seconds", [0.0, 3.0])
@pytest.mark.parametrize("budget", [60.0, 180.0, 900.0, 3600.0])
def test_a_fall_on_a_steady_machine_is_left_as_it_is(budget: float, validation_seconds: float) -> None:
    pace = machine(budget, 0.1, validate_every=int(budget), validation_seconds=validation_seconds)
    assert len(pace.fall(*pace.decide())) == 1


@pytest.mark.parametrize("slower", [1.1, 1.3, 1.6])
def test_a_fall_on_a_machine_that_slows_down_ends_in_time(slower: float) -> None:
    pace = machine(900.0, 0.1, validate_every=500, validation_seconds=3.0, slower=slower)
    found = pace.fall(*pace.decide())
    assert len(found) > 1
    assert 900 * 0.93 < pace.time[0] + LEAVING <= 900


def test_one_validation_that_took_long_by_chance_shortens_nothing() -> None:
    pace = machine(900.0, 0.25, validate_every=200, validation_seconds=1.0)
    pace.clock.validations_after = 12.0
    decided, ending = pace.decide()
    pace.clock.falls(ending, decided)
    for step in range(decided + 1, ending.last_step):
        pace.validation_seconds = 4.0 if step // 200 == (ending.last_step - 400) // 200 else 1.0
        pace._step(step - 1)
        assert pace.clock.shorten_decay(ending, step) is None


def test_a_fall_is_never_broken_off() -> None:
    """A machine that is ten times as slow makes the run late: the rate goes down to zero in a line of some length."""
    pace = machine(900.0, 0.1, slower=10.0)
    found = pace.fall(*pace.decide())
    assert pace.time[0] > 900
    for (_, before), (step, after) in pairwise(found):
        assert after.rest(step) == pytest.approx(before.rest(step), rel=0.02)
        assert after.last_step - step >= SHORTEST * (before.last_step - step) - 1
        assert before.decay_start <= after.decay_start <= step


def test_a_fall_that_another_command_began_is_left_as_it_is() -> None:
    pace = machine(300.0, 10.0, used=200.0)
    step = 1200
    while step < 2000:
        step = pace._step(step)
        assert pace.clock.shorten_decay(DecayPlan(1100, 2000), step) is None
    assert pace.time[0] > 300
