"""A schedule of one's own: a function of the step, until the clock lets the rate fall."""

import math
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import TrainConfig
from pellucid.errors import CheckpointError, ConfigError
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.schedule import BudgetClock, DecayPlan, Schedule, learning_rate
from tests.unit.training.test_budgeted_run import BUDGET
from tests.unit.training.test_budgeted_run import SETTINGS as BUDGETED
from tests.unit.training.test_loop import stop_at
from tests.unit.training.toy_run import ToyRun


def wave(step: int) -> float:
    return 1e-3 * (1.5 + math.sin(step))


def rates(run: ToyRun) -> dict[int, float]:
    return {line["step"]: line["learning_rate"] for line in run.metrics if line["event"] == "train"}


def test_the_settings_schedule_is_a_function_of_the_step() -> None:
    config = TrainConfig(steps=100, warmup_steps=10, schedule="cosine", learning_rate=1e-3)
    schedule = Schedule(config, 64)
    assert [schedule(step) for step in range(1, 101)] == [learning_rate(step, config, 64) for step in range(1, 101)]


@pytest.mark.slow
def test_each_step_has_its_rate_and_a_resumed_run_is_the_unbroken_one(tmp_path: Path) -> None:
    parts = {"schedule": wave}
    settings = {"log_every": 1}
    unbroken = ToyRun(tmp_path / "unbroken", parts=parts, settings=settings)
    unbroken.trainer.train()
    assert rates(unbroken) == {step: wave(step) for step in range(1, 13)}
    with pytest.raises(TrainingInterrupted):
        ToyRun(tmp_path / "broken", parts=parts, settings=settings, at_step=stop_at({5: signal.SIGINT})).trainer.train()
    with pytest.raises(CheckpointError, match=r"^the schedule of the run in `.*` was `wave`, and now is that of the s"):
        ToyRun(tmp_path / "broken", settings=settings).trainer.train()
    last = ToyRun(tmp_path / "broken", parts=parts, settings=settings)
    last.trainer.train()
    assert last.metrics == unbroken.metrics
    assert last.has_the_weights_of(unbroken)


@pytest.mark.parametrize("rate", [-0.1, math.nan, math.inf, None, "0.1", torch.ones(2)])
def test_what_is_not_a_rate(tmp_path: Path, rate: Any) -> None:
    def broken(step: int) -> Any:
        return rate if step == 3 else 0.0

    run = ToyRun(tmp_path, parts={"schedule": broken})
    with pytest.raises(ConfigError, match=r"^the schedule `.*broken` returned the learning rate .+ for step 3$"):
        run.trainer.train()
    assert run.trainer.state.step == 2


@pytest.mark.slow
def test_the_clock_lets_it_fall(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, settings=BUDGETED | {"log_every": 1}, parts={"schedule": wave})
    run.trainer.stopping.clock = BudgetClock(BUDGET, 0.4, 0.0, now=lambda: float(run.trainer.state.step))
    state = run.trainer.train()
    assert 0 < state.falls_at < state.last_step == state.step
    left = DecayPlan(state.falls_at, state.last_step).rest
    assert rates(run) == {step: wave(step) * left(step) for step in range(1, state.step + 1)}
    assert left(state.falls_at) == 1.0
    assert left(state.last_step) == pytest.approx(1 / (state.last_step + 1 - state.falls_at))


@pytest.mark.slow
def test_no_fall_is_planned_for_it(tmp_path: Path) -> None:
    """`schedule = "wsd"` of the settings has no effect on another schedule, its patience ends the run at once."""
    settings: dict[str, Any] = {"schedule": "wsd", "log_every": 1, "patience": 2, "validate_every": 2}
    run = ToyRun(tmp_path, settings=settings, parts={"schedule": wave}, scores=[10.0, 9.0, 8.0, *[7.0] * 9])
    state = run.trainer.train()
    assert (state.step, state.stopped_early, state.falls_at) == (6, True, 0)
    assert rates(run) == {step: wave(step) for step in range(1, 7)}
