"""Section 5.3: the learning rate as a pure function of the step; and the clock, which ends a run with a time budget.

The clock determines the step after which the rate begins to decay, so that the run ends in time; if the steps become
slower during the decay, it moves the last step forward. The loop saves a decision before it acts on it. Between two
decisions the rate is a function of the step, so a run that is resumed after a decision continues exactly.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pellucid.config import TrainConfig
from pellucid.errors import ConfigError
from pellucid.training.loss import get_callable_name

SETTLED = 20  # first steps that are not measured: caches are cold, kernels are chosen
MARGIN = 0.97  # fraction of the steps that fit into the time left: a machine slows down more often than it speeds up
LEAVING = 4.0  # seconds to start Python, to average, to write the result and to exit
LATE = 0.01  # fraction of the budget by which a decay may be late before it is shortened
PROVEN = 0.25  # fraction of the decay's steps before its pace is measured: one slow second would be much
SHORTEST = 0.5  # least fraction of the decay's steps after shortening: a steep decay costs more than being late


@dataclass(frozen=True)
class DecayPlan:
    """The end of a run: after step `decay_start` a stable rate begins to decay, and `last_step` is the last."""

    decay_start: int
    last_step: int

    def rest(self, step: int) -> float:
        """Returns the factor on the rate at a step: 1 until the decay, then linearly to 0 just after the last step."""
        return min(1.0, _measure_left(step, self.decay_start, self.last_step))

    def shorten(self, step: int, last_step: int) -> "DecayPlan":
        """Returns the plan whose linear decay passes through the rate of `step`, but ends sooner: after `last_step`."""
        left = last_step + 1 - step
        return DecayPlan(min(step, round(last_step + 1 - left / self.rest(step))), last_step)


UNDECIDED = DecayPlan(sys.maxsize, sys.maxsize)
"""The plan of a run with a time budget before the clock has determined it."""


def plan_decay(config: TrainConfig) -> DecayPlan:
    """Returns the plan that follows from the settings alone. The decay begins after the warmup, however long."""
    falls_at = round(config.steps * (1 - config.decay_fraction))
    return DecayPlan(min(max(falls_at, config.warmup_steps), config.steps), config.steps)


def plan_decay_from(step: int, config: TrainConfig) -> DecayPlan:
    """Returns the plan of a run whose stable rate begins to decay after `step`: over `decay_fraction` of its steps."""
    # Before the planned decay this never exceeds the configured steps.
    return DecayPlan(step, step + max(1, round(step * config.decay_fraction / (1 - config.decay_fraction))))


def compute_peak_rate(config: TrainConfig, d_model: int) -> float:
    """Returns the peak rate: the settings', or the rate of equation 3 of the paper after warmup."""
    return config.learning_rate or (d_model * config.warmup_steps) ** -0.5


def learning_rate(step: int, config: TrainConfig, d_model: int, ending: DecayPlan | None = None) -> float:
    """Returns the rate of `step`, counted from 1; `ending` is by default `plan_decay`'s.

    It rises linearly over `warmup_steps`; then noam and inverse_sqrt decay with the inverse square root of the step
    (equation 3 of the paper), linear and cosine reach `final_learning_rate` just after the last step, and constant does
    not change. wsd is constant and then decays linearly to zero (Hägele et al. 2024: it reaches the loss of a cosine
    of the same length, and the length may be chosen late).
    """
    warmup, ending = config.warmup_steps, ending or plan_decay(config)
    peak = compute_peak_rate(config, d_model)
    if config.schedule == "wsd" and step > ending.decay_start:
        # A decay that begins within the warmup starts from the rate reached.
        return peak * min(1.0, ending.decay_start / warmup) * _measure_left(step, ending.decay_start, ending.last_step)
    if step <= warmup:
        return peak * step / warmup
    left = _measure_left(step, warmup, ending.last_step)
    if config.schedule in ("noam", "inverse_sqrt"):
        return peak * math.sqrt(warmup / step)
    final = config.final_learning_rate
    if config.schedule == "linear":
        return final + (peak - final) * left
    if config.schedule == "cosine":
        return final + (peak - final) * (1 - math.cos(math.pi * left)) / 2
    return peak


def _measure_left(step: int, first: int, last: int) -> float:
    """Returns the remaining fraction of the steps from `first` (1) to just after `last` (0)."""
    return max(0.0, (last + 1 - step) / max(1, last + 1 - first))


@dataclass(frozen=True)
class Schedule:
    """The settings' learning rate as a function of the step, as is a custom schedule."""

    config: TrainConfig
    d_model: int

    def __call__(self, step: int, ending: DecayPlan | None = None) -> float:
        """Returns `learning_rate` of `step`, counted from 1."""
        return learning_rate(step, self.config, self.d_model, ending)


def evaluate_schedule(schedule: Callable[[int], float], step: int) -> float:
    """Returns a custom schedule's rate for a step. Raises ConfigError if it is not a valid learning rate."""
    given = schedule(step)
    try:
        rate = math.nan if isinstance(given, str) else float(given)
    except (TypeError, ValueError, RuntimeError):
        rate = math.nan
    if not 0 <= rate < math.inf:
        raise ConfigError(
            f"the schedule `{get_callable_name(schedule)}` returned the learning rate {given!r} for step {step:,}",
            "return a finite number, 0 or above, for each step counted from 1",
        )
    return rate


@dataclass
class BudgetClock:
    """Measures the time that one command takes.

    Args:
        budget: seconds that the run may take, including the time before a resumption.
        decay_fraction: the fraction of all steps over which the rate decays.
        started: the start of this command, by `now`.
        used: seconds that the run had used in the checkpoint that it resumes from.
        validations_after: the time to choose the model after the last step, in validations.
    """

    budget: float
    decay_fraction: float
    started: float
    used: float = 0.0
    validations_after: float = 1.0
    now: Callable[[], float] = time.perf_counter
    _first: tuple[int, float] | None = field(default=None, init=False)
    _steps: int = field(default=0, init=False)
    _fall: "_Mark | None" = field(default=None, init=False)
    _in_fall: list[float] = field(default_factory=list, init=False)
    """The seconds of each validation since the decay began."""
    _aside: float = field(default=0.0, init=False)
    _longest_validation: float = field(default=0.0, init=False)
    _longest_save: float = field(default=0.0, init=False)

    @property
    def elapsed(self) -> float:
        """Returns the seconds of the budget already used."""
        return self.used + self.now() - self.started

    def add_validation_time(self, seconds: float) -> None:
        """Records the duration of a validation: another follows the last step, and then the model is chosen."""
        self._longest_validation = max(self._longest_validation, seconds)
        if self._fall is not None:
            self._in_fall.append(seconds)
        self._aside += seconds

    def add_checkpoint_time(self, seconds: float) -> None:
        """Records the duration of a checkpoint: another follows the last step, and the model itself."""
        self._longest_save = max(self._longest_save, seconds)
        self._aside += seconds

    def plan_ending(self, step: int) -> DecayPlan | None:
        """Returns the plan if the decay of the rate has to begin, otherwise None. Called after each step.

        The remaining steps follow from the pace of this command so far, including validations and checkpoints.
        """
        self._steps += 1
        if self._steps == SETTLED or self._first is None:
            self._first = step, self.now()
        steps_left = self._steps_left(step)
        if steps_left is None or steps_left > self.decay_fraction * (step + steps_left):
            return None
        return DecayPlan(step, step + max(1, int(steps_left)))

    def falls(self, ending: DecayPlan, step: int) -> None:
        """Records that the decay begins at this step, in this command, to measure its pace."""
        self._fall = _Mark(step, ending.last_step - step, self.now(), self._aside)

    def shorten_decay(self, ending: DecayPlan, step: int) -> DecayPlan | None:
        """Returns a shorter plan if the decay is too slow for the budget, otherwise None. Called after each step.

        A decay that an earlier command began is not changed: a resumed run ends as it would have without the
        interruption.
        """
        self._steps += 1
        mark, left = self._fall, ending.last_step - step
        if mark is None or left < 2 or step - mark.step < max(SETTLED, PROVEN * mark.steps):
            return None
        # Validations are rare, so their number in a short time varies: their cost per step is the whole run's.
        pace = (self.now() - mark.time - (self._aside - mark.aside)) / (step - mark.step) + self._aside / self._steps
        # The mean, as one slow validation is no reason to reserve as much time for choosing the model.
        validation = sum(self._in_fall) / len(self._in_fall) if self._in_fall else self._longest_validation
        time_left = self._time_left(validation)
        if pace * left - time_left <= LATE * self.budget:
            return None
        fit = max(time_left / pace * MARGIN, SHORTEST * left)
        return ending.shorten(step, step + max(1, int(fit)))

    def _time_left(self, validation: float) -> float:
        """Returns the seconds that are left for steps, if a validation takes `validation` seconds."""
        # One more validation than will follow, as the pace does not show whether the next one is near.
        after = (2 + self.validations_after) * validation + 2 * self._longest_save + LEAVING
        return self.budget - self.elapsed - after

    def _steps_left(self, step: int) -> float | None:
        """Returns the number of steps that fit into the time left; None if the pace is unknown."""
        assert self._first is not None
        counted, since = step - self._first[0], self.now() - self._first[1]
        time_left = self._time_left(self._longest_validation)
        if time_left <= 0:
            return 0.0
        return counted / since * time_left * MARGIN if counted and since > 0 and self._steps > SETTLED else None


@dataclass(frozen=True)
class _Mark:
    """The start of a decay: the step, the steps that follow, the time, and the seconds of validations before it."""

    step: int
    steps: int
    time: float
    aside: float
