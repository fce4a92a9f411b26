"""A run that the clock ends, on a clock of the test's own: the decision is saved before it acts, and replayed."""

import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.schedule import SETTLED, BudgetClock, learning_rate
from pellucid.training.step import StepResult
from tests.unit.training.toy_run import ToyRun

BUDGET = 90.0
SETTINGS: dict[str, Any] = {
    "steps": 1000, "schedule": "wsd", "decay_fraction": 0.4, "budget": BUDGET, "accumulate": 1,
    "validate_every": 10, "save_every": 10, "log_every": 5,
}  # fmt: skip


class _StepsAlone(BudgetClock):
    """Does not hear how long validations and checkpoints took here."""

    def add_validation_time(self, seconds: float) -> None:
        assert seconds > 0

    def add_checkpoint_time(self, seconds: float) -> None:
        assert seconds > 0


def budgeted(folder: Path, seconds: float = 1.0, first: int = 0, stop_after: int = 0) -> ToyRun:
    """A run whose steps after `first` take `seconds` each; it gets a signal after the step `stop_after`."""
    run = ToyRun(folder, settings=SETTINGS)
    count = run.trainer.step.count

    def noted(taken: StepResult, seconds: float) -> None:
        count(taken, seconds)
        if taken.step == stop_after:
            os.kill(os.getpid(), signal.SIGTERM)

    run.trainer.step.count = noted  # type: ignore[method-assign]
    run.trainer.stopping.clock = _StepsAlone(BUDGET, 0.4, 0.0, now=lambda: seconds * (run.trainer.state.step - first))
    return run


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> ToyRun:
    run = budgeted(tmp_path_factory.mktemp("unbroken"))
    run.trainer.train()
    return run


def test_the_run_ends_on_time(unbroken: ToyRun) -> None:
    state = unbroken.trainer.state
    assert SETTLED < state.falls_at < state.step == state.last_step
    assert 0.9 * BUDGET < state.step < BUDGET
    (decision,) = [line for line in unbroken.metrics if line["event"] == "clock"]
    assert decision == {"event": "clock", "step": state.falls_at, "last_step": state.last_step}
    assert f"step {state.falls_at}: the learning rate decay starts; step {state.last_step} is the last" in unbroken.said


@pytest.mark.slow
def test_the_rate_is_stable_and_then_falls(unbroken: ToyRun) -> None:
    state = unbroken.trainer.state
    rates = {line["step"]: line["learning_rate"] for line in unbroken.metrics if line["event"] == "train"}
    peak = unbroken.config.learning_rate
    assert {rate for step, rate in rates.items() if 3 <= step <= state.falls_at} == {peak}
    falling = [rate for step, rate in rates.items() if step > state.falls_at]
    assert all(now < before for before, now in pairwise(falling))
    last = learning_rate(state.last_step, unbroken.config, 8, unbroken.trainer.stopping.decay_plan)
    assert falling[-1] == last == pytest.approx(peak / (state.last_step + 1 - state.falls_at))


@pytest.mark.slow
def test_the_decision_is_saved_at_once(tmp_path: Path) -> None:
    run = budgeted(tmp_path)
    saved: list[int] = []
    save = run.trainer.saving.checkpoints.save

    def noted(state: Any, *rest: Any) -> None:
        save(state, *rest)
        saved.append(state.step)

    run.trainer.saving.checkpoints.save = noted  # type: ignore[method-assign]
    run.trainer.train()
    assert run.trainer.state.falls_at in saved
    assert run.trainer.state.falls_at % 10


@pytest.mark.parametrize(
    "after", [pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(13, marks=pytest.mark.slow)]
)
def test_resumed_after_the_decision_it_is_the_same_run(unbroken: ToyRun, tmp_path: Path, after: int) -> None:
    decided, last = unbroken.trainer.state.falls_at, unbroken.trainer.state.last_step
    first = budgeted(tmp_path, stop_after=decided + after)
    with pytest.raises(TrainingInterrupted):
        first.trainer.train()
    assert first.trainer.state.step == decided + after
    # The second process runs on a machine that is ten times as slow: nothing may follow from it any more.
    second = budgeted(tmp_path, seconds=10.0)
    second.trainer.train()
    assert (second.trainer.state.falls_at, second.trainer.state.last_step) == (decided, last)
    assert second.has_the_weights_of(unbroken)


@pytest.mark.slow
def test_resumed_before_the_decision_it_has_the_time_that_is_left(tmp_path: Path) -> None:
    first = budgeted(tmp_path, stop_after=30)
    with pytest.raises(TrainingInterrupted):
        first.trainer.train()
    second = budgeted(tmp_path, seconds=0.5, first=30)
    second.trainer.train()
    assert second.trainer.stopping.clock is not None
    assert second.trainer.stopping.clock.used == 30
    left = (BUDGET - 30) / 0.5
    assert 0.9 * left < second.trainer.state.step - 30 < left


@pytest.mark.slow
def test_a_fall_that_becomes_slow_is_shortened_and_that_is_replayed(unbroken: ToyRun, tmp_path: Path) -> None:
    """From the decision on a step takes three seconds; a kill after the second decision changes nothing."""

    def slowing(folder: Path, stop_after: int = 0) -> ToyRun:
        run = budgeted(folder, stop_after=stop_after)
        decided = unbroken.trainer.state.falls_at

        def now() -> float:
            step = run.trainer.state.step
            return float(step + 2 * max(0, step - decided))

        run.trainer.stopping.clock = _StepsAlone(BUDGET, 0.4, 0.0, now=now)
        return run

    whole = slowing(tmp_path / "whole")
    whole.trainer.train()
    first, *others = [line for line in whole.metrics if line["event"] == "clock"]
    assert others
    assert first["step"] < others[0]["step"] < whole.trainer.state.step == others[-1]["last_step"] < first["last_step"]
    said = f"so the decay ends before step {first['last_step']}; step {others[0]['last_step']} is the last"
    assert any(said in text for text in whole.said)

    broken = slowing(tmp_path / "broken", stop_after=others[-1]["step"] + 1)
    with pytest.raises(TrainingInterrupted):
        broken.trainer.train()
    resumed = budgeted(tmp_path / "broken", seconds=10.0)
    resumed.trainer.train()
    assert resumed.trainer.state.step == others[-1]["last_step"]
    assert resumed.has_the_weights_of(whole)
