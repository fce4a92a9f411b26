"""Section 5.3: the learning rate as a pure function of the step; and the clock, which ends a run with a time budget.

The clock decides after which step the rate begins to fall, so that the run ends in time; where the steps become slower
during the fall, it moves the last step forward. The loop writes a decision down before it acts on it. All between two
decisions is a function of the step, so a run that is resumed after one goes on exactly.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pellucid.config import TrainConfig
from pellucid.errors import ConfigError
from pellucid.training.loss import name_of

SETTLED = 20  # steps that are too slow to count: caches are cold, kernels are chosen
MARGIN = 0.97  # of the steps that the time left would hold: a machine slows down more often than it speeds up
LEAVING = 4.0  # seconds to have started Python, to average, to write the result and to leave
LATE = 0.01  # of the budget, by which a fall may be late before it is shortened
PROVEN = 0.25  # of the steps of a fall, before which its pace is not judged: one slow second would be much
SHORTEST = 0.5  # of a fall's steps, the least that a shortening leaves: a steep fall costs more than being late


@dataclass(frozen=True)
class Ending:
    """Says how a run ends: after step `falls_at` a stable rate begins to fall, and `last_step` is the last."""

    falls_at: int
    last_step: int

    def rest(self, step: int) -> float:
        """Returns what is left of the rate at a step: 1 until it falls, then in a line to 0 just after the last."""
        return min(1.0, _left(step, self.falls_at, self.last_step))

    def shortened(self, step: int, last_step: int) -> "Ending":
        """Returns the ending whose line to zero goes through the rate of `step`, but ends sooner: after `last_step`."""
        left = last_step + 1 - step
        return Ending(min(step, round(last_step + 1 - left / self.rest(step))), last_step)


UNDECIDED = Ending(sys.maxsize, sys.maxsize)
"""The ending of a run with a time budget before the clock has decided it."""


def planned_ending(config: TrainConfig) -> Ending:
    """Returns the ending that follows from the settings alone. Warm-up, however long, comes before the fall."""
    falls_at = round(config.steps * (1 - config.decay_fraction))
    return Ending(min(max(falls_at, config.warmup_steps), config.steps), config.steps)


def fall_from(step: int, config: TrainConfig) -> Ending:
    """Returns the ending of a run whose stable rate begins to fall after `step`: over `decay_fraction` of its steps."""
    # Before the planned fall that is never beyond the steps that were asked for.
    return Ending(step, step + max(1, round(step * config.decay_fraction / (1 - config.decay_fraction))))


def peak_rate(config: TrainConfig, d_model: int) -> float:
    """Returns the highest rate: the settings', or that of equation 3 of the paper, which it has after warm-up."""
    return config.learning_rate or (d_model * config.warmup_steps) ** -0.5


def learning_rate(step: int, config: TrainConfig, d_model: int, ending: Ending | None = None) -> float:
    """Returns the rate of `step`, counted from 1; `ending` is the planned one unless another is given.

    It rises linearly over `warmup_steps`; then noam and inverse_sqrt fall with the square root of the step (equation 3
    of the paper), linear and cosine reach `final_learning_rate` just after the last step, and constant stays. stable
    stays and then falls linearly to zero (Hägele et al. 2024: it ends where a cosine of the same length
    does, and the length may be decided late).
    """
    warmup, ending = config.warmup_steps, ending or planned_ending(config)
    peak = peak_rate(config, d_model)
    if config.schedule == "stable" and step > ending.falls_at:
        # A fall that begins within warm-up starts from the rate that it finds.
        return peak * min(1.0, ending.falls_at / warmup) * _left(step, ending.falls_at, ending.last_step)
    if step <= warmup:
        return peak * step / warmup
    left = _left(step, warmup, ending.last_step)
    if config.schedule in ("noam", "inverse_sqrt"):
        return peak * math.sqrt(warmup / step)
    final = config.final_learning_rate
    if config.schedule == "linear":
        return final + (peak - final) * left
    if config.schedule == "cosine":
        return final + (peak - final) * (1 - math.cos(math.pi * left)) / 2
    return peak


def _left(step: int, first: int, last: int) -> float:
    """Returns what is left of the way from step `first` (1) to just after step `last` (0)."""
    return max(0.0, (last + 1 - step) / max(1, last + 1 - first))


@dataclass(frozen=True)
class Schedule:
    """Gives the learning rate that the settings ask for, as a function of the step: what one of your own is, too."""

    config: TrainConfig
    d_model: int

    def __call__(self, step: int, ending: Ending | None = None) -> float:
        """Returns the rate of `step`, counted from 1, as `learning_rate` has it."""
        return learning_rate(step, self.config, self.d_model, ending)


def own_rate(schedule: Callable[[int], float], step: int) -> float:
    """Returns what a schedule of one's own gives for a step. Raises ConfigError where that is not a learning rate."""
    given = schedule(step)
    try:
        rate = math.nan if isinstance(given, str) else float(given)
    except (TypeError, ValueError, RuntimeError):
        rate = math.nan
    if not 0 <= rate < math.inf:
        raise ConfigError(
            f"the schedule `{name_of(schedule)}` gives a learning rate of {given!r} for step {step:,}",
            "return a finite number, 0 or above, for each step counted from 1",
        )
    return rate


@dataclass
class Clock:
    """Watches the time that one command takes.

    Args:
        budget: seconds that the command may take, those before a resumption included.
        decay_fraction: the part of all steps over which the rate falls.
        started: when this command began, as `now` counts.
        used: seconds that the run had used up when the state was saved that it goes on from.
        validations_after: how many times as long as a validation it takes to choose the model after the last step.
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
    """The seconds of each validation since the fall began."""
    _aside: float = field(default=0.0, init=False)
    _longest_validation: float = field(default=0.0, init=False)
    _longest_save: float = field(default=0.0, init=False)

    @property
    def elapsed(self) -> float:
        """Returns the seconds of the budget that are gone."""
        return self.used + self.now() - self.started

    def validated(self, seconds: float) -> None:
        """Learns how long a validation takes: one more comes after the last step, and then the model is chosen."""
        self._longest_validation = max(self._longest_validation, seconds)
        if self._fall is not None:
            self._in_fall.append(seconds)
        self._aside += seconds

    def saved(self, seconds: float) -> None:
        """Learns how long a checkpoint takes: one more comes after the last step, and the model itself."""
        self._longest_save = max(self._longest_save, seconds)
        self._aside += seconds

    def ending(self, step: int) -> Ending | None:
        """Returns how the run ends once the fall of the rate has to begin, until then None. Asked after each step.

        Steps are counted at the pace of this command so far, its validations and checkpoints included.
        """
        self._steps += 1
        if self._steps == SETTLED or self._first is None:
            self._first = step, self.now()
        steps_left = self._steps_left(step)
        if steps_left is None or steps_left > self.decay_fraction * (step + steps_left):
            return None
        return Ending(step, step + max(1, int(steps_left)))

    def falls(self, ending: Ending, step: int) -> None:
        """Learns that the rate falls from this step on, in this command: how long that takes is watched."""
        self._fall = _Mark(step, ending.last_step - step, self.now(), self._aside)

    def sooner(self, ending: Ending, step: int) -> Ending | None:
        """Returns an ending in time where the fall's steps have become too slow for it, else None. Asked after each.

        A fall that another command began is left as it is: a run that is resumed ends as it would have without a stop.
        """
        self._steps += 1
        mark, left = self._fall, ending.last_step - step
        if mark is None or left < 2 or step - mark.step < max(SETTLED, PROVEN * mark.steps):
            return None
        # Validations come rarely, so in a short time by chance: they are taken to cost what they did in the whole run.
        pace = (self.now() - mark.time - (self._aside - mark.aside)) / (step - mark.step) + self._aside / self._steps
        # One that took long by chance is no reason to reserve as much for each that chooses the model.
        validation = sum(self._in_fall) / len(self._in_fall) if self._in_fall else self._longest_validation
        time_left = self._time_left(validation)
        if pace * left - time_left <= LATE * self.budget:
            return None
        fit = max(time_left / pace * MARGIN, SHORTEST * left)
        return ending.shortened(step, step + max(1, int(fit)))

    def _time_left(self, validation: float) -> float:
        """Returns the seconds that are left for steps, where a validation takes so many."""
        # One validation more than come, as the pace says nothing of whether the next one is near.
        after = (2 + self.validations_after) * validation + 2 * self._longest_save + LEAVING
        return self.budget - self.elapsed - after

    def _steps_left(self, step: int) -> float | None:
        """Returns how many more steps the time left holds; None while nothing is known."""
        assert self._first is not None
        counted, since = step - self._first[0], self.now() - self._first[1]
        time_left = self._time_left(self._longest_validation)
        if time_left <= 0:
            return 0.0
        return counted / since * time_left * MARGIN if counted and since > 0 and self._steps > SETTLED else None


@dataclass(frozen=True)
class _Mark:
    """Says where a stretch of a fall begins: the step, how many come, the time, and what validations had taken."""

    step: int
    steps: int
    time: float
    aside: float
