"""Writes the files of a run so that a full disk does not end it.

Training continues; files that could not be written are kept in memory and written before the next checkpoint. So if a
checkpoint exists, all earlier files exist, too: the metrics, the best weights, and the weights that the end needs.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from pellucid.files.writing import describe_disk_error, is_disk_failure
from pellucid.training.log import RunLog
from pellucid.training.optimizer import Table, Tensors
from pellucid.training.state import EMA, WEIGHTS, Checkpoints, RunState


class CheckpointWriter:
    """Writes the files of a run during training.

    Args:
        checkpoints: the checkpoints to write to.
        publish: called with weights, writes them as the run's model.
        log: its metrics are written before a checkpoint; failures are logged to it.
    """

    def __init__(self, checkpoints: Checkpoints, publish: Callable[[Tensors], None], log: RunLog) -> None:
        self.checkpoints = checkpoints
        self._publish = publish
        self._log = log
        self._best: Tensors | None = None
        self._late: dict[int, tuple[RunState, dict[str, Tensors]]] = {}
        self._failing = False

    def publish(self, step: int, weights: Tensors) -> None:
        """Writes the weights of `step` as the run's model; if the disk fails, they are kept in memory."""
        try:
            self._publish(weights)
            self._best = None
        except OSError as error:
            if not is_disk_failure(error):
                raise
            self._best = _copy(weights)
            self._complain(step, "the best weights so far", error)

    def save(self, state: RunState, files: Mapping[str, Tensors | Table]) -> bool:
        """Writes pending files, then a checkpoint; returns True if it was written. Adds the time to the run's."""
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
            self._log.log_line(f"step {state.step:,}: the disk has free space again, and everything is saved")
        self._failing = False
        return True

    def write_what_waits(self) -> None:
        """Writes the pending files. Raises OSError if the disk still fails."""
        self._log.flush()
        if self._best is not None:
            self._publish(self._best)
            self._best = None
        for step in sorted(self._late):
            self.checkpoints.write(*self._late[step])
            del self._late[step]

    def _defer(self, state: RunState, files: Mapping[str, Tensors | Table]) -> None:
        """Keeps weights in memory if the end of the run needs them; drops older ones that it no longer needs."""
        if self.checkpoints.list_needed([state.step], state):
            weights = {name: _copy(cast(Tensors, files[name])) for name in (WEIGHTS, EMA) if name in files}
            self._late[state.step] = replace(state), weights
            needed = self.checkpoints.list_needed(self._late, state)
            self._late = {step: late for step, late in self._late.items() if step in needed}

    def _complain(self, step: int, what: str, error: OSError) -> None:
        """Logs a failure: in full the first time, then briefly."""
        folder, last = self.checkpoints.folder, self.checkpoints.last_step_saved
        trouble = f"warning: step {step:,}: {what} could not be written: {describe_disk_error(error, folder)}"
        goes_on = f"the last good checkpoint is step {last:,}" if last else "there is no checkpoint yet"
        if self._failing:
            self._log.log_line(f"{trouble}; {goes_on}")
            return
        self._failing = True
        self._log.log_line(
            f"{trouble}\n"
            f"  Training continues, and unsaved data is kept in memory; {goes_on}.\n"
            f"  Free space on the disk of `{folder.parent}`: each later checkpoint tries again."
        )


def _copy(tensors: Tensors) -> Tensors:
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
