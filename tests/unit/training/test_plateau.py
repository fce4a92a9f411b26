"""A stable rate falls where the validation loss has stopped falling: decided once, saved at once, replayed exactly."""

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.schedule import BudgetClock, learning_rate
from pellucid.training.validation import Validation
from tests.unit.training.test_loop import stop_at
from tests.unit.training.toy_run import ToyRun

STABLE: dict[str, Any] = {
    "steps": 200, "schedule": "wsd", "decay_fraction": 0.4, "patience": 2, "validate_every": 4, "save_every": 10,
    "log_every": 1, "warmup_steps": 3,
}  # fmt: skip
LOSSES = [3.0, 2.0, 2.1, 2.2]
"""At steps 4, 8, 12 and 16: the second one without a lower loss is that of step 16."""
FALLS, LAST = 16, 16 + round(16 * 0.4 / 0.6)


class Falling:
    """Losses by the step, so that a resumed run finds what the unbroken one did; after LOSSES they fall."""

    def __init__(self, run: ToyRun, losses: list[float]) -> None:
        self.run = run
        self.losses = losses

    def __call__(self) -> Validation:
        number = self.run.trainer.state.step // self.run.config.validate_every - 1
        return Validation(self.losses[number] if number < len(self.losses) else 1.0, bleu=1.0 + number)


def plateau(folder: Path, losses: list[float] = LOSSES, **options: Any) -> ToyRun:
    run = ToyRun(folder, settings=STABLE | options.pop("settings", {}), **options)
    run.trainer.selection.validate_some = Falling(run, losses)
    return run


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> ToyRun:
    run = plateau(tmp_path_factory.mktemp("unbroken"))
    run.trainer.train()
    return run


def test_the_rate_falls_and_the_run_ends_with_it(unbroken: ToyRun) -> None:
    state = unbroken.trainer.state
    assert (state.falls_at, state.last_step, state.step, state.stopped_early) == (FALLS, LAST, LAST, True)
    (decision,) = [line for line in unbroken.metrics if line["event"] == "plateau"]
    assert decision == {"event": "plateau", "step": FALLS, "last_step": LAST, "lowest_loss": 2.0}
    said = "2 validations without a loss below 2.000 (`train.patience`): the learning rate decay starts; step 27 is"
    assert f"step 16: {said} the last" in unbroken.said
    rates = {line["step"]: line["learning_rate"] for line in unbroken.metrics if line["event"] == "train"}
    peak = unbroken.config.learning_rate
    assert {rates[step] for step in range(3, FALLS + 1)} == {peak}
    assert [rates[step] for step in range(FALLS + 1, LAST + 1)] == [
        learning_rate(step, unbroken.config, 8, unbroken.trainer.stopping.decay_plan)
        for step in range(FALLS + 1, LAST + 1)
    ]
    assert rates[LAST] == pytest.approx(peak / (LAST + 1 - FALLS))


def test_bleu_that_gets_better_does_not_hide_it(unbroken: ToyRun) -> None:
    bleu = [line["bleu"] for line in unbroken.metrics if line["event"] == "validation"]
    assert bleu[:4] == sorted(bleu[:4])


@pytest.mark.parametrize(
    "stop", [7, FALLS, *(pytest.param(at, marks=pytest.mark.slow) for at in (12, FALLS - 1, FALLS + 1, LAST - 1))]
)
def test_a_resumed_run_is_the_unbroken_one(unbroken: ToyRun, tmp_path: Path, stop: int) -> None:
    with pytest.raises(TrainingInterrupted):
        plateau(tmp_path, at_step=stop_at({stop: signal.SIGTERM})).trainer.train()
    last = plateau(tmp_path)
    last.trainer.train()
    assert last.metrics == unbroken.metrics
    assert all(torch.equal(last.published[-1][name], weights) for name, weights in unbroken.published[-1].items())


class Stopped(BaseException):
    """As if the process had been killed."""


@pytest.mark.slow
@pytest.mark.parametrize("stop", [FALLS, FALLS + 1])
def test_so_is_one_that_was_killed_around_the_decision(unbroken: ToyRun, tmp_path: Path, stop: int) -> None:
    def kill(step: int) -> None:
        if step == stop:
            raise Stopped

    with pytest.raises(Stopped):
        plateau(tmp_path, at_step=kill).trainer.train()
    last = plateau(tmp_path)
    last.trainer.train()
    assert last.metrics == unbroken.metrics
    saved = f"resuming after step {FALLS if stop > FALLS else 12} "
    assert any(line.startswith(saved) for line in last.said), "the decision is in a checkpoint at once"


@pytest.mark.slow
def test_with_a_budget_the_plateau_comes_before_the_clock(tmp_path: Path) -> None:
    run = plateau(tmp_path, settings={"budget": 1e6})
    run.trainer.stopping.clock = BudgetClock(1e6, 0.4, 0.0, now=lambda: float(run.trainer.state.step))
    run.trainer.train()
    assert (run.trainer.state.falls_at, run.trainer.state.step) == (FALLS, LAST)
    assert not [line for line in run.metrics if line["event"] == "clock"]


@pytest.mark.slow
def test_a_plateau_within_the_fall_changes_nothing(tmp_path: Path) -> None:
    run = plateau(tmp_path, losses=[3.0, 2.0, *[2.5] * 9], settings={"steps": 16, "decay_fraction": 0.6})
    state = run.trainer.train()
    assert (state.step, state.stopped_early) == (16, False)


@pytest.mark.slow
def test_other_schedules_still_end_at_once(tmp_path: Path) -> None:
    run = plateau(tmp_path, settings={"schedule": "constant", "best_metric": "loss"})
    state = run.trainer.train()
    assert (state.step, state.stopped_early) == (16, True)
