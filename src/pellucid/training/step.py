"""One optimizer step: the learning rate, the gradient, clipping, and the update. A GPU computes ahead of Python."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from pellucid.data.batching import Batch
from pellucid.model.fast.gpu import is_gpu
from pellucid.training.failures import Cause, make_non_finite_error
from pellucid.training.gradients import Gradients
from pellucid.training.muon import Muon
from pellucid.training.optimizer import MovingAverage, set_learning_rate, split_state
from pellucid.training.ranks import DistributedContext
from pellucid.training.sharding import Replicas
from pellucid.training.state import RunState, TrainableState
from pellucid.weights.sharded import gather_full_tensor

UNREAD = 16
"""The steps after which the numbers of a GPU are read, if nothing has read them before."""


@dataclass(frozen=True)
class StepResult:
    """A step that was taken, with numbers that a GPU may still be computing."""

    step: int
    batches: list[Batch]
    """The batches of this rank."""
    rate: float
    loss: Tensor
    """The summed loss to report, ()."""
    norm: Tensor
    """The norm of the gradient before clipping, ()."""
    tokens: int
    """The target tokens without padding; of all ranks, as loss and norm are."""
    seconds: float = 0.0


class TrainStep:
    """Takes optimizer steps, called with the batches of each, and counts them in `state`.

    If the optimizer can skip an update by a number on the GPU, Python does not synchronize per step: a step whose loss
    or gradient is not finite changes no weights, nor do the steps after it, until `read` raises the error.

    Args:
        learning_rate: returns the rate of a step, counted from 1.
        text_of: returns the text of a sentence pair, by its index, for a message.
    """

    def __init__(
        self,
        trained: TrainableState,
        moving_average: MovingAverage | None,
        gradients: Gradients,
        grad_clip: float,
        state: RunState,
        ranks: DistributedContext,
        replicas: Replicas,
        learning_rate: Callable[[int], float],
        text_of: Callable[[int], str],
    ) -> None:
        self.moving_average = moving_average
        self.gradients = gradients
        self.text_of = text_of
        self.loss: float = math.nan
        """The mean loss per token of the last step that was read."""
        self.norm: float = math.nan
        """The norm of its gradient, before clipping."""
        self.rate: float = 0.0
        """The learning rate of the last step."""
        self._trained, self._grad_clip, self._state = trained, grad_clip, state
        self._ranks, self._replicas, self._learning_rate = ranks, replicas, learning_rate
        self._device: torch.device = next(trained.model.parameters()).device
        leaves_out = not replicas.is_sharded and _can_leave_out_updates(trained.optimizer)
        self.runs_ahead: bool = is_gpu(self._device) and leaves_out
        self._stopped: Tensor = torch.zeros((), device=self._device)  # 1 from the first step on that is not finite
        self._unread: list[StepResult] = []
        self._is_first = True

    def __call__(self, batches: list[Batch]) -> StepResult:
        """Takes one optimizer step.

        Raises PellucidError before the update if the loss or the gradient is not finite; on a GPU, `read` raises it.
        """
        step, optimizer = self._state.step + 1, self._trained.optimizer
        rate = self.rate = self._learning_rate(step)
        set_learning_rate(optimizer, rate)
        loss, tokens = self.gradients.compute(batches, step)
        parameters = self.gradients.parameters.values()
        norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
        if self._grad_clip:
            clip_grads_with_norm_(parameters, self._grad_clip, norm)
        taken = StepResult(step, batches, rate, loss, gather_full_tensor(norm), tokens)
        if self.runs_ahead:
            self._update_unless_stopped(taken)
        else:
            self._check([taken])
            optimizer.step()
            if self.moving_average is not None:
                self.moving_average.update(step)
        self._state.step = step
        self._state.tokens += taken.tokens
        if self._is_first:  # the optimizer has its state now: an error about state that cannot be saved comes early
            split_state(optimizer, self.gradients.parameters)
            self._is_first = False
        return taken

    def count(self, taken: StepResult, seconds: float) -> None:
        """Adds a step's time; reads the unread steps if that does not synchronize, or if there are UNREAD."""
        self._unread.append(replace(taken, seconds=seconds))
        if not self.runs_ahead or len(self._unread) == UNREAD:
            self.read()

    def read(self) -> None:
        """Reads the numbers of the unread steps into the meter, which waits for a GPU.

        Raises PellucidError for the first step whose loss or gradient is not finite; the run then is before that step.
        """
        if not self._unread:
            return
        started = time.perf_counter()
        unread, self._unread = self._unread, []
        for taken, (loss, norm) in zip(unread, self._check(unread), strict=True):
            self.loss, self.norm = loss / taken.tokens, norm
            self._state.meter.add(loss, taken.tokens, taken.seconds)
        if self.runs_ahead:
            self._state.meter.seconds += time.perf_counter() - started

    def use_averaged_weights(self) -> AbstractContextManager[None]:
        """Swaps in the moving average, if there is one, within the context, to validate and publish it."""
        return nullcontext() if self.moving_average is None else self.moving_average.swap_in()

    def _update_unless_stopped(self, taken: StepResult) -> None:
        """Updates the weights if this step and all before it are finite, which the device decides."""
        is_finite = taken.loss.isfinite() & taken.norm.isfinite()
        self._stopped = torch.maximum(self._stopped, (~is_finite).float())
        # As torch.amp.GradScaler passes it.
        optimizer: Any = self._trained.optimizer
        optimizer.grad_scale, optimizer.found_inf = None, self._stopped
        optimizer.step()
        del optimizer.grad_scale, optimizer.found_inf
        if self.moving_average is not None:
            self.moving_average.update(taken.step, self._stopped)

    def _check(self, taken: list[StepResult]) -> list[tuple[float, float]]:
        """Returns loss and norm of steps. Raises as `read` does."""
        losses, norms = (torch.stack(each).tolist() for each in zip(*((t.loss, t.norm) for t in taken), strict=True))
        for place, (one, loss, norm) in enumerate(zip(taken, losses, norms, strict=True)):
            if math.isfinite(loss) and math.isfinite(norm):
                continue
            if one.step <= self._state.step:  # later steps were taken
                self._state.step = one.step - 1
                self._state.tokens -= sum(later.tokens for later in taken[place:])
            numbers = f"loss {loss / one.tokens:.4g}, gradient norm {norm:.4g}, learning rate {one.rate:.3g}"
            is_finite = partial(self.gradients.are_finite, step=one.step)
            with self._replicas.gather_weights():
                cause = Cause.find(self._trained.model, one.batches, is_finite, self.text_of)
            raise make_non_finite_error(self._ranks.gather(cause), f"step {one.step:,} ({numbers})")
        return list(zip(losses, norms, strict=True))


def _can_leave_out_updates(optimizer: Any) -> bool:
    """Returns True if an optimizer can skip an update by a number on the device: PyTorch's fused ones, and Muon.

    A custom `step`, and hooks after a step, may change weights all the same.
    """
    own = type(optimizer) is Muon or type(optimizer).step.__module__.startswith("torch.optim.")
    hooks = getattr(optimizer, "_optimizer_step_post_hooks", None)
    return own and not hooks and bool(getattr(optimizer, "_step_supports_amp_scaling", False))
