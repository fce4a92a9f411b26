"""Model selection: the best validation is the run's model during training; at the end, it or a mean of checkpoints."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from pellucid.config import TrainConfig
from pellucid.model.families import Model
from pellucid.training.failures import make_divergence_error
from pellucid.training.log import RunLog
from pellucid.training.optimizer import Tensors
from pellucid.training.ranks import DistributedContext
from pellucid.training.saving import CheckpointWriter
from pellucid.training.sharding import Replicas
from pellucid.training.state import RunState, WeightsCandidate, average_into, read_checkpoint_weights
from pellucid.training.validation import Validation, select_best, set_result, update_best
from pellucid.weights.sharded import gather_full_tensors
from pellucid.weights.tensors import parameters


@dataclass
class ModelSelection:
    """Validates weights, publishes the best ones as the run's model, and selects the model at the end."""

    model: Model
    config: TrainConfig
    state: RunState
    saving: CheckpointWriter
    log: RunLog
    ranks: DistributedContext
    replicas: Replicas
    validate_some: Callable[[], Validation]
    """Validates the model during training."""
    publish: Callable[[Tensors], None]
    """Writes weights as the run's model."""
    validate_all: Callable[[], Validation] | None = None
    """Validates a candidate at the end, on the whole validation set; if None, `validate_some` is used."""
    published: Callable[[], str | None] | None = None
    """Returns the SHA-256 of the published weights, or None if there are none; if None, they are not checked."""
    chosen: str = ""
    """The name of the selected candidate, after `select`."""

    def validate(self, learning_rate: float) -> tuple[Validation, bool]:
        """Validates the weights, and publishes them if they are the best so far; returns the scores and True if so.

        Raises PellucidError if the loss is not finite; the message names the learning rate of the last step.
        """
        found, step = self._run(self.validate_some), self.state.step
        if not math.isfinite(found.loss):
            with self.replicas.gather_weights():
                raise make_divergence_error(self.model, found.loss, step, learning_rate, self.config.init_from)
        is_best = update_best(found, self.state, self.config)
        if is_best and (weights := self._weights()):
            self.saving.publish(step, weights)
        return found, is_best

    def repair(self) -> None:
        """Publishes the best weights so far again if the published weights are missing or differ."""
        if not self.ranks.is_first or self.published is None:
            return
        best_step, found = self.state.best_step, self.published()
        saved = self.saving.checkpoints.weights_of_step(best_step)
        if (found is not None and saved is None) or (saved and saved[1] == found):
            return
        was = "is missing" if found is None else "is not the best one"
        if saved is None:
            self.log.log_line(f"warning: the run's model, of step {best_step:,}, {was}, and no checkpoint holds it")
            return
        self.saving.publish(best_step, read_checkpoint_weights(saved[0]))
        self.log.log_line(f"the run's model {was}; restoring it from `{saved[0]}`")

    def select(self) -> None:
        """Publishes the best candidate, a checkpoint or a mean of several, by the whole validation set.

        It does not change the files that it reads, so a run that is killed here repeats the selection.
        """
        candidates = self.saving.checkpoints.candidates(self.state)
        if {candidate.name for candidate in candidates} <= {"best"}:
            self._select_best()
        else:
            self._select_among(candidates)

    def _select_best(self) -> None:
        """Keeps the weights of the best validation; if they are lost, the last step's."""
        self.chosen = f"the best validation (step {self.state.best_step:,})"
        if not (weights := self._weights()):
            return
        self.repair()
        if self.published is not None and self.published() is None:
            self.chosen = f"the last step ({self.state.step:,}), since the best weights are lost"
            self.publish(weights)
            self.log.log_line(f"warning: selected model: {self.chosen}")

    def _select_among(self, candidates: list[WeightsCandidate]) -> None:
        started, state, found = time.perf_counter(), self.state, list[Validation]()
        for candidate in candidates:
            average_into(self.model, candidate.paths)
            found.append(self._run(self.validate_all or self.validate_some))
            self.log.log_line(f"{candidate}: {found[-1]}")
        best = select_best(found, self.config.best_metric)
        average_into(self.model, candidates[best].paths)
        if weights := self._weights():
            self.publish(weights)
        for i, (candidate, numbers) in enumerate(zip(candidates, found, strict=True)):
            values = {"candidate": candidate.name, "checkpoints": candidate.steps, "kept": i == best}
            self.log.write("candidate", state.step, **values, **numbers.numbers)
        state.seconds += time.perf_counter() - started
        set_result(found[best], state)
        self.chosen = str(candidates[best])
        folder = self.saving.checkpoints.folder
        self.log.log_line(
            f"selected model: {self.chosen}; the checkpoints of the other candidates remain in `{folder}`"
        )

    def _run(self, validate: Callable[[], Validation]) -> Validation:
        self.model.eval()
        with self.replicas.gather_weights(), torch.inference_mode():
            return validate()

    def _weights(self) -> Tensors:
        """Returns the model's weights on rank 0, which writes them; on the other ranks an empty dict."""
        return gather_full_tensors(parameters(self.model), self.ranks.is_first)
