"""Saves what a run leaves so that a full disk does not end it.

Training goes on; what could not be written waits in memory, and is written before the next checkpoint. So where a
checkpoint stands, all from before it stands, too: the metrics, the best weights, the weights that the end needs.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from pellucid.files.writing import disk_trouble, is_disk_failure
from pellucid.training.log import RunLog
from pellucid.training.optimizer import Table, Tensors
from pellucid.training.state import EMA, WEIGHTS, Checkpoints, RunState


class Saving:
    """Writes what a run leaves while it goes on.

    Args:
        checkpoints: where states go.
        publish: writes the weights that it is given as the run's model.
        log: its metrics are on the disk before a checkpoint is, and it tells of what fails.
    """

    def __init__(self, checkpoints: Checkpoints, publish: Callable[[Tensors], None], log: RunLog) -> None:
        self.checkpoints = checkpoints
        self._publish = publish
        self._log = log
        self._best: Tensors | None = None
        self._late: dict[int, tuple[RunState, dict[str, Tensors]]] = {}
        self._failing = False

    def publish(self, step: int, weights: Tensors) -> None:
        """Writes weights, those of `step`, as the run's model; where the disk fails, they wait."""
        try:
            self._publish(weights)
            self._best = None
        except OSError as error:
            if not is_disk_failure(error):
                raise
            self._best = _copy(weights)
            self._complain(step, "the best weights so far", error)

    def save(self, state: RunState, files: Mapping[str, Tensors | Table]) -> bool:
        """Writes a checkpoint, after all that waits; returns whether the disk took it. Its time counts as the run's."""
        started = time.perf_counter()
        try:
            self.write_what_waits()
            self.checkpoints.save(state, files)
        except OSError as error:
            if not is_disk_failure(error):
                raise
            self._defer(state, files)
            self._complain(state.step, "the checkpoint", error)
            return False
        finally:
            state.seconds += time.perf_counter() - started
        if self._failing:
            self._log.say(f"step {state.step:,}: the disk has room again, and all is saved")
        self._failing = False
        return True

    def write_what_waits(self) -> None:
        """Writes what the disk has not taken yet. Raises OSError where it still does not."""
        self._log.flush()
        if self._best is not None:
            self._publish(self._best)
            self._best = None
        for step in sorted(self._late):
            self.checkpoints.write(*self._late[step])
            del self._late[step]

    def _defer(self, state: RunState, files: Mapping[str, Tensors | Table]) -> None:
        """Keeps weights in memory that the end of the run needs; those that newer ones push out of that go."""
        if self.checkpoints.needed([state.step], state):
            weights = {name: _copy(cast(Tensors, files[name])) for name in (WEIGHTS, EMA) if name in files}
            self._late[state.step] = replace(state), weights
            needed = self.checkpoints.needed(self._late, state)
            self._late = {step: late for step, late in self._late.items() if step in needed}

    def _complain(self, step: int, what: str, error: OSError) -> None:
        """Says what failed: all of it the first time, then in short."""
        folder, last = self.checkpoints.folder, self.checkpoints.last_step_saved
        trouble = f"warning: step {step:,}: {what} could not be written: {disk_trouble(error, folder)}"
        goes_on = f"the last good checkpoint is step {last:,}" if last else "there is no checkpoint yet"
        if self._failing:
            self._log.say(f"{trouble}; {goes_on}")
            return
        self._failing = True
        self._log.say(
            f"{trouble}\n"
            f"  Training goes on, and what is not written waits in memory; {goes_on}.\n"
            f"  Make room on the disk of `{folder.parent}`: each checkpoint that is due tries again."
        )


def _copy(tensors: Tensors) -> Tensors:
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
