"""The time budget of a run: when the learning rate has to begin to fall for the run to end in time.

It is the one decision that the clock takes; the loop writes it down before it acts on it. All before and after it is a
function of the step, so a run that is resumed after the decision goes on exactly.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pellucid.training.schedule import Ending

SETTLED = 20  # steps that are too slow to count: caches are cold, kernels are chosen
MARGIN = 0.97  # of the steps that the time left would hold: a machine slows down more often than it speeds up
LEAVING = 4.0  # seconds to have started Python, to average, to write the result and to leave


@dataclass
class Clock:
    """Watches one command.

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
    _longest_validation: float = field(default=0.0, init=False)
    _longest_save: float = field(default=0.0, init=False)

    @property
    def elapsed(self) -> float:
        """Seconds of the budget that are gone."""
        return self.used + self.now() - self.started

    def validated(self, seconds: float) -> None:
        """Learns how long a validation takes: one more comes after the last step, and then the model is chosen."""
        self._longest_validation = max(self._longest_validation, seconds)

    def saved(self, seconds: float) -> None:
        """Learns how long a checkpoint takes: one more comes after the last step, and the model itself."""
        self._longest_save = max(self._longest_save, seconds)

    def ending(self, step: int) -> Ending | None:
        """Asked after each step while the rate is stable: how the run ends, once the fall has to begin; else None.

        Steps are counted at the pace of this command so far, its validations and checkpoints included.
        """
        self._steps += 1
        if self._steps == SETTLED or self._first is None:
            self._first = step, self.now()
        steps_left = self._steps_left(step)
        if steps_left is None or steps_left > self.decay_fraction * (step + steps_left):
            return None
        return Ending(step, step + max(1, int(steps_left)))

    def _steps_left(self, step: int) -> float | None:
        """How many more steps the time left holds; None while nothing is known."""
        assert self._first is not None
        counted, since = step - self._first[0], self.now() - self._first[1]
        time_left = self.budget - self.elapsed - self._time_after_last_step
        if time_left <= 0:
            return 0.0
        return counted / since * time_left * MARGIN if counted and since > 0 and self._steps > SETTLED else None

    @property
    def _time_after_last_step(self) -> float:
        # One validation more than that, as the pace says nothing of whether the next one is near.
        return (2 + self.validations_after) * self._longest_validation + 2 * self._longest_save + LEAVING
