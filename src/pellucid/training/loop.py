"""The training loop: section 5 of the paper in the order in which it happens."""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from pellucid.config import TrainConfig
from pellucid.data.batching import Batch, batch_order, draw_batch
from pellucid.data.sentences import Indices
from pellucid.data.shards import Shard
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import PellucidError
from pellucid.model.families import Model, SequenceClassifier
from pellucid.model.fast.queue import has_queue
from pellucid.model.layers import recompute_in
from pellucid.process import most_memory
from pellucid.training import events
from pellucid.training.adam import PaperAdam
from pellucid.training.events import CheckpointEvent, EndEvent, Hooks, StepEvent, ValidationEvent
from pellucid.training.failures import Cause, diverged, in_parts, is_out_of_memory, not_finite, too_long_for_memory
from pellucid.training.interrupts import Interrupted, Interrupts
from pellucid.training.log import RunLog
from pellucid.training.loss import Loss, Losses, check_losses, make_loss, name_of
from pellucid.training.muon import Muon
from pellucid.training.optimizer import (
    MovingAverage,
    Optimizer,
    Tensors,
    check_optimizer,
    make_optimizer,
    named_parameters,
    saved_state,
    set_rate,
)
from pellucid.training.precision import autocast, multiply_in
from pellucid.training.ranks import ALONE, Ranks
from pellucid.training.saving import Saving
from pellucid.training.schedule import UNDECIDED, Clock, Ending, Schedule, fall_from, own_rate, planned_ending
from pellucid.training.sharding import Sharding, check_shared_out
from pellucid.training.state import Checkpoints, Meter, RunState, Trained, average_into, read_weights
from pellucid.training.validation import Validation, record, set_result, winner
from pellucid.weights.sharded import whole, whole_ones
from pellucid.weights.tensors import parameters

UNREAD = 16
"""The steps after which a GPU is asked for their numbers, where nothing has asked for them before."""


@dataclass(frozen=True)
class Taken:
    """A step that has been taken, with numbers that a GPU may be computing yet."""

    step: int
    batches: list[Batch]
    """The batches of this rank."""
    rate: float
    loss: Tensor
    """The summed loss that is reported, ()."""
    norm: Tensor
    """The gradient's norm, before it is clipped, ()."""
    tokens: int
    """The target tokens without padding; of all ranks, as loss and norm are."""
    seconds: float = 0.0


@dataclass
class OwnPart:
    """Adds up what this rank has done of the steps since the last report, of several ranks."""

    NAMES: ClassVar = ("tokens_per_second", "computing", "waiting", "adding", "memory")
    """Target tokens for each second of computing; seconds of computing, of waiting for slower ranks, and of adding up
    gradients; the most memory so far, in megabytes: of the GPU, else of the process."""
    tokens: int = 0
    computing: float = 0.0
    waiting: float = 0.0
    adding: float = 0.0

    def add(self, tokens: int, computing: float, waiting: float, adding: float) -> None:
        """Counts a step."""
        self.tokens += tokens
        self.computing += computing
        self.waiting += waiting
        self.adding += adding

    def numbers(self, device: torch.device) -> list[float]:
        """Returns the numbers of NAMES."""
        times = (round(each, 2) for each in (self.computing, self.waiting, self.adding))
        gpu = device.type == "cuda"
        memory = torch.cuda.max_memory_allocated(device) if gpu else most_memory()
        return [round(self.tokens / max(1e-9, self.computing)), *times, memory >> 20]


@dataclass
class Trainer:
    """Holds a run's parts and where it stands. `train` is the loop; the other methods are its lines."""

    model: Model
    shard: Shard
    config: TrainConfig
    checkpoints: Checkpoints
    log: RunLog
    validate: Callable[[], Validation]
    publish: Callable[[Tensors], None]
    """Writes weights as the run's model."""
    published: Callable[[], str | None] | None = None
    """Returns the SHA-256 of the run's model as it lies on the disk, None where it does not; without this function
    nothing is checked."""
    loss: Loss | None = None
    """None: the one that the settings ask for."""
    optimizer: Optimizer | Callable[[Any], Optimizer] | None = None
    """An optimizer over the model's parameters, or a function that makes one of the model; None: the settings' Adam.
    The rate of its first group is the schedule's; the others keep their ratio to it."""
    schedule: Callable[[int], float] | None = None
    """Returns the learning rate of a step, counted from 1; None: the settings'. Once the clock of a time budget has
    decided that the rate falls, this one is multiplied by what is left of the fall."""
    hooks: Hooks = field(default_factory=Hooks)
    validate_all: Callable[[], Validation] | None = None
    """Validates on all that is held out, to choose the model at the end; None: as `validate` does."""
    text_of: Callable[[int], str] = "".format
    """Returns both sides of a sentence pair, by its index, for a message."""
    sampling: SubwordSampling | None = None
    """Cuts each sentence anew when it is drawn; None: always into its stored pieces."""
    has_start: bool = False
    """True where the model begins with trained weights: they are validated, published and saved before step 1."""
    origin: dict[str, Any] = field(default_factory=dict)
    """The origin of the run, which its checkpoints keep."""
    clock: Clock | None = None
    """Ends a run that has a time budget; None: the settings say how the run ends."""
    ranks: Ranks = ALONE
    """The processes that train together. The first alone writes; the others are given a log that says nothing."""
    state: RunState = field(default_factory=RunState)
    chosen: str = ""
    """The choice of the run's model, once it is chosen: the best validation, or one of the means."""

    def __post_init__(self) -> None:
        model, config = self.model, self.config
        multiply_in(model, config.precision)
        recompute_in(model, config.recompute)
        loss: Loss = make_loss(config) if self.loss is None else self.loss
        if isinstance(loss, nn.Module):
            loss.to(next(model.parameters()).device)
        self._sharding: Sharding | None = None
        if config.shard and self.ranks.count > 1:
            self._sharding = Sharding(model, loss, self.ranks)
        optimizer: Any = make_optimizer(model, config, loss) if self.optimizer is None else self.optimizer
        if callable(optimizer):
            optimizer = optimizer(model)
        if self._sharding is not None:
            check_shared_out(optimizer)
        self._planned = Schedule(config, model.config.d_model)
        self._parameters = named_parameters(model, loss)
        if warning := check_optimizer(optimizer, self._parameters):
            self.log.say(f"warning: {warning}")
        replaced: dict[str, object] = {"loss": loss} if loss != make_loss(config) else {}
        replaced |= {} if isinstance(optimizer, PaperAdam) else {"optimizer": optimizer}
        replaced |= {"schedule": self.rate_of} if self.rate_of != self._planned else {}
        self.moving_average: MovingAverage | None = MovingAverage(model, config.ema_decay) if config.ema_decay else None
        ema = None if self.moving_average is None else self.moving_average.tensors
        names = {what: name_of(made) for what, made in replaced.items()}
        self.trained: Trained = Trained(model, loss, optimizer, ema, names)
        self.saving: Saving = Saving(self.checkpoints, self.publish, self.log)
        self._last_loss, self._last_norm, self._last_rate = math.nan, math.nan, 0.0
        self._first_step, self._stopping = 1, False
        self._accumulate = config.accumulate
        self._own = OwnPart()
        self._device: torch.device = next(model.parameters()).device
        # Where the optimizer can leave out an update by a number on the device, Python need not look at it before.
        leaves_out = self._sharding is None and _can_leave_out_updates(optimizer)
        self._runs_ahead: bool = has_queue(self._device) and leaves_out
        self._stopped: Tensor = torch.zeros((), device=self._device)  # 1 from the first step on that is not finite
        self._unread: list[Taken] = []

    def train(self) -> RunState:
        """Trains from the newest checkpoint, or from the start, to the last step; then chooses the model.

        Raises Interrupted, with the state saved, after SIGINT, SIGTERM or SIGHUP; PellucidError when the loss is not
        finite, or a single sentence does not fit into memory; OSError when at the end the disk does not take what
        waits.
        """
        with nullcontext() if self._sharding is None else self._sharding.noticing():
            return self._train()

    def _train(self) -> RunState:
        self._restore()
        order = batch_order(self.shard, self.config.batch_tokens, self.config.seed, self.sampling)
        stream = order.follow(self.state.epoch, self.state.position)
        with Interrupts(self.ranks.count > 1) as interrupts:
            while self.state.step < self.last_step:
                self._timed_step(stream)
                numbers = self._tell_of_step() if self.hooks.step else {}
                received = self._agree(interrupts)
                if self._stopping and self.state.step < self.last_step:
                    self._end_here("a hook asked for it")
                if self._due(self.config.log_every):
                    self._report(numbers)
                elif numbers:
                    self.log.write("step", self.state.step, **numbers)
                falls = False
                if self._due(self.config.validate_every):
                    self._validate()
                    falls = self._fall_on_a_plateau()
                    self._end_early()
                due = falls or self._clock_decides() or self._save_is_due
                received = received or (interrupts.received if self.ranks.count == 1 else None)
                if due or received:
                    self._save(due)
                if received and self.state.step < self.last_step:
                    raise Interrupted(received, self.state.step, self.checkpoints.last_step_saved)
        if self.ranks.is_first:
            self.saving.write_what_waits()
        self.ranks.wait()  # what is chosen from is on the disk
        self._choose()
        if self._sharding is not None:
            self._sharding.end()
        self._tell_of_end()
        self.log.flush()
        return self.state

    def _agree(self, interrupts: Interrupts) -> int | None:
        """Returns the signal that one of the ranks has got; what a hook has asked of one of them, is asked of all.

        The factor of the rate is the first rank's.
        """
        if self.ranks.count == 1:
            return interrupts.received
        own = float(interrupts.received or 0), float(self._stopping), self.state.rate_factor
        signals, stops, factors = zip(*self.ranks.exchange(own), strict=True)
        self._stopping, self.state.rate_factor = any(stops), factors[0]
        return int(max(signals)) or None

    def stop(self) -> None:
        """Ends the run after this step, as if it were the last; asked in a checkpoint's hook, after the next one."""
        self._stopping = True

    @property
    def rate_of(self) -> Callable[[int], float]:
        """Returns the schedule: that of the settings, unless there is another."""
        return self._planned if self.schedule is None else self.schedule

    @property
    def last_step(self) -> int:
        """Returns the step that ends the run: the configured one, unless something has moved it."""
        return self.state.last_step or self.ending.last_step

    @property
    def ending(self) -> Ending:
        """Returns how the run ends, as far as that is known."""
        if self.state.falls_at:
            return Ending(self.state.falls_at, self.state.last_step)
        return planned_ending(self.config) if self.clock is None else UNDECIDED

    def step(self, batches: list[Batch]) -> Taken:
        """Takes one optimizer step.

        Raises PellucidError before the update where the loss or the gradient is not finite. A GPU is not waited for: it
        leaves out the update by itself, and all that come after it, until `_read` raises the error.
        """
        step = self.state.step + 1
        rate = self._last_rate = self._rate(step)
        set_rate(self.trained.optimizer, rate)
        loss, tokens = self._gradients_that_fit(batches, step)
        norm = get_total_norm([p.grad for p in self._parameters.values() if p.grad is not None])
        if self.config.grad_clip:
            clip_grads_with_norm_(self._parameters.values(), self.config.grad_clip, norm)
        taken = Taken(step, batches, rate, loss, whole(norm), tokens)
        if self._runs_ahead:
            self._update_unless_stopped(taken)
        else:
            self._check([taken])
            self.trained.optimizer.step()
            if self.moving_average is not None:
                self.moving_average.update(step)
        self.state.step = step
        self.state.tokens += taken.tokens
        return taken

    def _update_unless_stopped(self, taken: Taken) -> None:
        """Updates the weights where this step and all before it are finite, which the device tells by itself."""
        is_finite = taken.loss.isfinite() & taken.norm.isfinite()
        self._stopped = torch.maximum(self._stopped, (~is_finite).float())
        # As torch.amp.GradScaler hands it over.
        optimizer: Any = self.trained.optimizer
        optimizer.grad_scale, optimizer.found_inf = None, self._stopped
        optimizer.step()
        del optimizer.grad_scale, optimizer.found_inf
        if self.moving_average is not None:
            self.moving_average.update(taken.step, self._stopped)

    def _check(self, taken: list[Taken]) -> list[tuple[float, float]]:
        """Returns loss and norm of steps, for which a GPU is waited for.

        Raises PellucidError for the first step of which they are not finite; the run stands before it then.
        """
        losses, norms = (torch.stack(each).tolist() for each in zip(*((t.loss, t.norm) for t in taken), strict=True))
        for place, (one, loss, norm) in enumerate(zip(taken, losses, norms, strict=True)):
            if math.isfinite(loss) and math.isfinite(norm):
                continue
            if one.step <= self.state.step:  # it was noticed later
                self.state.step = one.step - 1
                self.state.tokens -= sum(later.tokens for later in taken[place:])
            what = f"loss {loss / one.tokens:.4g}, gradient norm {norm:.4g}, learning rate {one.rate:.3g}"
            is_finite = partial(self._is_finite, step=one.step)
            with self._whole_weights():
                cause = Cause.of(self.model, one.batches, is_finite, self.text_of)
            causes = self.ranks.gather(cause)
            raise not_finite(causes, f"step {one.step:,} ({what})")
        return list(zip(losses, norms, strict=True))

    def _read(self) -> None:
        """Counts the steps since the last look, whose numbers are waited for. Raises as `_check` does."""
        if not self._unread:
            return
        started = time.perf_counter()
        unread, self._unread = self._unread, []
        for taken, (loss, norm) in zip(unread, self._check(unread), strict=True):
            self._last_loss, self._last_norm = loss / taken.tokens, norm
            self.state.meter.add(loss, taken.tokens, taken.seconds)
        if self._runs_ahead:
            self.state.meter.seconds += time.perf_counter() - started

    def _rate(self, step: int) -> float:
        """Returns the learning rate of a step: the schedule's, times what hooks have multiplied it by."""
        rate_of = self.rate_of
        if isinstance(rate_of, Schedule):
            rate = rate_of(step, self.ending)
        else:
            rate = own_rate(rate_of, step) * (self.ending.rest(step) if self.state.falls_at else 1.0)
        return rate * self.state.rate_factor

    def _restore(self) -> None:
        self.state = self.checkpoints.restore(self.trained, self.log.say)
        self._follow_the_first()
        self.log.resume_at(self.state.step)
        if self.clock is not None:
            self.clock.used = self.state.clock
        if self.state.last_step:
            self.log.ends_at(self.state.last_step)
        if self.state.best_loss is not None and self.state.step < self.last_step:
            self._publish_best_again()
        if self.state.step:
            of = "" if self.ending is UNDECIDED else f" of {self.last_step:,}"
            self.log.say(f"resuming after step {self.state.step:,}{of}")
        elif self.has_start and self.state.best_loss is None:
            self.log.resume_at(-1)
            self._validate()
            self._save()
        self._first_step = self.state.step + 1
        self._last_rate = self._rate(self.state.step) if self.state.step else 0.0

    def _follow_the_first(self) -> None:
        """Sees to it that all ranks begin alike, and a step is of as many batches as on the ranks of before.

        Raises PellucidError where ranks do not see the same checkpoints.
        """
        ranks, state = self.ranks, self.state
        steps = [int(step) for (step,) in ranks.exchange([state.step])]
        if len(set(steps)) > 1:
            other = next(rank for rank, step in enumerate(steps) if step != steps[0])
            raise PellucidError(
                f"rank {other} finds the run after step {steps[other]:,}, the first rank after step {steps[0]:,}",
                f"let all machines see the same folder: `{self.checkpoints.folder}`",
            )
        if self._sharding is None:
            ranks.same_weights(self.model)
        before = state.ranks if state.step else ranks.count
        batches = (state.accumulate or self.config.accumulate) * before
        self._accumulate = max(1, batches // ranks.count)
        now = self._accumulate * ranks.count
        if before != ranks.count:
            same = (
                f"a step is of {now} batches, as before"
                if now == batches
                else (f"a step is of {now} batches, not of {batches} any more, which {ranks.count} ranks cannot share")
            )
            self.log.say(
                f"{'warning: ' * (now != batches)}this run was on {before} rank{'s' * (before > 1)} and now is on "
                f"{ranks.count}: the order of the texts stays, {same}; the weights are the same up to rounding alone"
            )
        state.ranks = ranks.count
        state.accumulate = 0 if self._accumulate == self.config.accumulate else self._accumulate

    def _publish_best_again(self) -> None:
        """Publishes the best weights so far where the run's model is something else, or is not there."""
        if not self.ranks.is_first:
            return
        state = self.state
        found, saved = (
            self.published() if self.published else None,
            self.checkpoints.weights_of_step(state.best_step),
        )
        if self.published is None or (found is not None and saved is None) or (saved and saved[1] == found):
            return
        was = "is not there any more" if found is None else "is not the best so far"
        if saved is None:
            self.log.say(f"warning: the run's model, of step {state.best_step:,}, {was}, and no checkpoint holds it")
            return
        self.saving.publish(state.best_step, read_weights(saved[0]))
        self.log.say(f"the run's model {was}: it is put back from `{saved[0]}`")

    def _timed_step(self, stream: Iterator[tuple[int, int, Indices]]) -> None:
        """Takes a step on the next batches, and reads its numbers where that is no waiting, or enough are unread."""
        started = time.perf_counter()
        ranks = self.ranks
        places = [next(stream) for _ in range(self._accumulate * ranks.count)]
        batches = [self._batch(sentences, epoch) for epoch, _, sentences in places[ranks.rank :: ranks.count]]
        taken = self.step(batches)
        if self.state.step == self._first_step:  # an optimizer has its state now: what cannot be saved is said at once
            saved_state(self.trained.optimizer, self._parameters)
        self.state.epoch, self.state.position, _ = places[-1]
        self._unread.append(replace(taken, seconds=time.perf_counter() - started))
        if not self._runs_ahead or len(self._unread) == UNREAD:
            self._read()

    def _batch(self, sentences: Indices, epoch: int) -> Batch:
        return draw_batch(self.shard, sentences, self.model.config, self.sampling, epoch)

    def _gradients_that_fit(self, batches: list[Batch], step: int) -> tuple[Tensor, int]:
        """Leaves the gradient of the mean loss per token in the parameters; returns the summed loss to report, ().

        It is the mean over the tokens of all ranks, of which the number is returned, too. Where memory does not suffice
        for one of them, all take smaller parts.
        """
        while True:
            loss: Tensor | None = None
            started = time.perf_counter()
            try:
                loss = self._gradients(batches, step, per=_tokens(batches) if self.ranks.count == 1 else 1)
            except (RuntimeError, MemoryError) as error:
                # With shards the others are in the middle of the step, too, and cannot begin it again.
                if self._sharding is not None or not is_out_of_memory(error):
                    raise
            # Out of the except clause: what the failed pass still held is free now.
            computed = time.perf_counter()
            lacking = [p for p in self._parameters.values() if p.grad is None]
            told = self.ranks.exchange([_tokens(batches), loss is None, len(lacking), max(len(b.src) for b in batches)])
            tokens, failed, lacks, most = zip(*told, strict=True)
            if loss is None or any(failed):
                self._halve_parts(batches, step, int(max(most)), failed)
                continue
            if self.ranks.count > 1:
                waited = time.perf_counter()
                loss = self._of_all(loss, sum(tokens), any(lacks))
                ended = time.perf_counter()
                self._own.add(int(tokens[self.ranks.rank]), computed - started, waited - computed, ended - waited)
            return loss, int(sum(tokens))

    def _of_all(self, loss: Tensor, tokens: float, lacking: bool) -> Tensor:
        """Makes the gradients of this rank's sums those of all ranks' mean; returns the sum of their losses, ().

        Args:
            lacking: a rank has parameters without a gradient: where all lack it, it stays away.
        """
        parameters = [p for p in self._parameters.values() if p.requires_grad]
        if lacking:
            have = self.ranks.exchange([float(p.grad is not None) for p in parameters])
            parameters = [p for p, told in zip(parameters, zip(*have, strict=True), strict=True) if any(told)]
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in parameters if p.grad is not None]
        loss = loss[None]
        self.ranks.add([loss] if self._sharding else [*gradients, loss])
        torch._foreach_div_(gradients, tokens)
        return loss[0]

    def _gradients(self, batches: list[Batch], step: int, per: int) -> Tensor:
        """Leaves the gradient of the loss, in units of `per`, in the parameters; returns the summed loss to report."""
        self.model.train()
        for parameter in self._parameters.values():
            parameter.grad = None
        loss = torch.zeros((), device=self._device)
        for number, batch in enumerate(batches):
            # Dropout follows from (seed, step, place) alone, so nothing of it has to be saved, and ranks can share it.
            torch.manual_seed(_seed_of(self.config.seed, step, self.ranks.place(number)))
            for part in in_parts(batch, self.state.parts):
                if has_queue(self._device):
                    part = part.for_a_queue(self.model.config.max_positions)
                part = part.to(self._device)
                with autocast(self.model):
                    losses = check_losses(self._losses_of(part), self.trained.loss)
                (losses.minimised / per).backward()  # type: ignore[no-untyped-call]
                loss += losses.reported.detach()
        return loss

    def _losses_of(self, batch: Batch) -> Losses:
        if self._sharding is None:
            return self.trained.loss(self.model, batch)
        found: Losses = self._sharding.losses(batch)
        return found

    def _is_finite(self, batch: Batch, step: int) -> bool:
        """Returns whether loss and gradient of a batch, computed once more, are finite; of sharded weights the loss."""
        if self._sharding is not None:  # a gradient needs all ranks
            torch.manual_seed(_seed_of(self.config.seed, step, self.ranks.rank))
            with torch.no_grad(), autocast(self.model):
                return bool(self.trained.loss(self.model, batch.to(self._device)).minimised.isfinite())
        loss = self._gradients([batch], step, per=_tokens([batch]))
        gradients = (p.grad for p in self._parameters.values() if p.grad is not None)
        return bool(loss.isfinite()) and all(bool(torch.isfinite(g).all()) for g in gradients)

    def _halve_parts(self, batches: list[Batch], step: int, most: int, failed: Sequence[float]) -> None:
        """Takes the batches of this step and of all later ones in twice as many parts, on all ranks.

        Args:
            most: the sentences of the largest batch, of any rank.
            failed: which ranks were out of memory.
        """
        if self.state.parts >= most:
            raise self.ranks.gather(too_long_for_memory(batches, step))[[bool(each) for each in failed].index(True)]
        self.state.parts *= 2
        self.log.write("out_of_memory", self.state.step, parts=self.state.parts)
        where = f"out of memory at step {step:,}{self._on_ranks(failed)}"
        self.log.say(
            f"{where}: from here on batches are taken in {self.state.parts} parts; the gradient is the same up to "
            "rounding, dropout draws other numbers"
        )
        # Before the step is repeated, so that a resumed run takes the same steps in parts.
        if self.state.step:
            self._save(due=False)

    def _on_ranks(self, flags: Sequence[float]) -> str:
        """Returns of which ranks something is true, where there are several."""
        ranks = [str(rank) for rank, flag in enumerate(flags) if flag]
        return f" on rank{'s' * (len(ranks) > 1)} {' and '.join(ranks)}" if self.ranks.count > 1 else ""

    def _tell_of_step(self) -> dict[str, float]:
        """Calls the hooks of a step; returns their numbers."""
        self._read()
        event = StepEvent(**self._standing(self._last_loss), **self._steering, gradient_norm=self._last_norm)
        return events.call(self.hooks.step, event)

    def _standing(self, loss: float) -> dict[str, Any]:
        """Returns what each event says."""
        state = self.state
        return {"step": state.step, "loss": loss, "tokens": state.tokens, "learning_rate": self._last_rate}

    @property
    def _steering(self) -> dict[str, Any]:
        """Returns what some events can be asked for."""

        def scale_rate(factor: float) -> None:
            self.state.rate_factor *= events.check_factor(factor)

        return {"stop": self.stop, "scale_rate": scale_rate}

    def _report(self, numbers: Mapping[str, float] = MappingProxyType({})) -> None:
        """Writes the line of the steps since the last report, with the numbers of this step's hooks."""
        self._read()
        state = self.state
        meter, state.meter = state.meter, Meter()
        state.seconds += meter.seconds
        values = {
            "loss": round(meter.loss, 4),
            "learning_rate": self._last_rate,
            "gradient_norm": round(self._last_norm, 4),
            "epoch": state.epoch,
            "tokens": state.tokens,
            "tokens_per_second": round(meter.speed),
            "seconds": round(state.seconds, 2),
        }
        values |= self._report_of_ranks()
        self.log.write("train", state.step, **values, **numbers)
        unit = "texts" if isinstance(self.model, SequenceClassifier) else "tokens"
        self.log.progress(state.step, f"loss {meter.loss:.3f}, {meter.speed:,.0f} {unit}/s, rate {self._last_rate:.2e}")

    def _report_of_ranks(self) -> dict[str, Any]:
        """Returns what each rank has done since the last report: one list each, by rank; nothing of a single one."""
        if self.ranks.count == 1:
            return {}
        own, self._own = self._own, OwnPart()
        by_rank = zip(*self.ranks.exchange(own.numbers(self._device)), strict=True)
        return {f"ranks_{name}": list(each) for name, each in zip(OwnPart.NAMES, by_rank, strict=True)}

    def _validate(self) -> None:
        """Validates, and publishes the weights where they are the best so far."""
        self._read()
        started, step, numbers = time.perf_counter(), self.state.step, dict[str, float]()
        # A moving average takes the weights' place wherever weights are judged or published.
        with nullcontext() if self.moving_average is None else self.moving_average.in_place():
            found = self._found_by(self.validate)
            if not math.isfinite(found.loss):
                with self._whole_weights():
                    raise diverged(self.model, found.loss, step, self._last_rate, self.config.init_from)
            better = record(found, self.state, self.config)
            if better and (weights := self._weights()):
                self.saving.publish(step, weights)
            if self.hooks.validation:
                told = self._standing(found.loss) | self._steering
                event = ValidationEvent(**told, numbers=found.numbers, best=better)
                numbers = events.call(self.hooks.validation, event)
        self._stopping = self.ranks.any(self._stopping)
        seconds = time.perf_counter() - started
        self.state.seconds += seconds
        if self.clock is not None:
            self.clock.validated(seconds)
        self.log.write("validation", step, **found.numbers, best=better, **numbers)
        self.log.say(f"step {step:,}: {found}{', the best so far' if better else ''}")
        for more in filter(None, (found.of_pairs, found.sample)):
            self.log.say(more)

    def _found_by(self, validate: Callable[[], Validation]) -> Validation:
        self.model.eval()
        with self._whole_weights(), torch.inference_mode():
            return validate()

    def _whole_weights(self) -> AbstractContextManager[None]:
        """Gives this rank all weights, where they are sharded, to compute with them by itself."""
        return nullcontext() if self._sharding is None else self._sharding.whole_weights()

    def _weights(self) -> Tensors:
        """Returns the model's weights, for the first rank to write; nothing on the others, which hand over theirs."""
        return whole_ones(parameters(self.model), self.ranks.is_first)

    def _end_early(self) -> None:
        """Makes this step the last one where a hook asks for it, or validation has not got better for too long."""
        state, patience = self.state, self.config.patience
        without = patience and state.bad_validations >= patience and not self._rate_falls_first
        if state.step == self.last_step or not (self._stopping or without):
            return
        if state.meter.tokens:
            self._report()
        if self._stopping:
            self._end_here("a hook asked for it")
            return
        reason = f"{patience} validations without a new best (`train.patience`); the best was at step"
        self._end_here(f"{reason} {state.best_step:,}", bad_validations=state.bad_validations)

    def _end_here(self, reason: str, **values: int) -> None:
        state = self.state
        state.last_step, state.stopped_early = state.step, True
        self.log.write("stop", state.step, **values, best_step=state.best_step)
        self.log.say(f"step {state.step:,} is the last of {self.config.steps:,}: {reason}")

    @property
    def _rate_falls_first(self) -> bool:
        """Returns whether a run that gets no better ends with a falling rate, and not at once."""
        return self.config.schedule == "stable" and (isinstance(self.rate_of, Schedule) or self.clock is not None)

    def _fall_on_a_plateau(self) -> bool:
        """Lets a stable rate fall from this step on where the validation loss has not got lower for too long.

        Returns whether it does. It is saved at once, like the clock's decision; the run ends with the fall, however
        much time is left.
        """
        state, config = self.state, self.config
        stable = self._rate_falls_first and config.warmup_steps < state.step < self.ending.falls_at
        if not config.patience or state.bad_losses < config.patience or not stable:
            return False
        ending = fall_from(state.step, config)
        state.falls_at, state.last_step, state.stopped_early = ending.falls_at, ending.last_step, True
        if self.clock is not None:
            self.clock.falls(ending, state.step)
        self.log.write("plateau", state.step, last_step=ending.last_step, lowest_loss=state.lowest_loss)
        self.log.ends_at(ending.last_step)
        without = f"{config.patience} validation{'s' * (config.patience > 1)} without a loss below"
        self.log.say(
            f"step {state.step:,}: {without} {state.lowest_loss:.3f} (`train.patience`): the learning rate begins to "
            f"fall; step {ending.last_step:,} is the last"
        )
        return True

    def _clock_decides(self) -> bool:
        """Returns whether the clock lets the rate fall from this step on, or faster than before.

        It is saved at once, to be replayed.
        """
        state, before = self.state, self.last_step
        falling = bool(state.falls_at)
        in_warmup = falling and state.falls_at < self.config.warmup_steps  # its height depends on where it began
        if self.clock is None or state.step >= before or in_warmup:
            return False
        ending = self.clock.sooner(self.ending, state.step) if falling else self.clock.ending(state.step)
        if self.ranks.count > 1:  # the clock of the first
            falls_at, last_step = self.ranks.exchange((ending.falls_at, ending.last_step) if ending else (0, 0))[0]
            ending = Ending(int(falls_at), int(last_step)) if last_step else None
        if ending is None:
            return False
        state.falls_at, state.last_step = ending.falls_at, ending.last_step
        self.clock.falls(ending, state.step)
        virtual = {"falls_at": ending.falls_at} if falling else {}
        self.log.write("clock", state.step, **virtual, last_step=ending.last_step)
        self.log.ends_at(ending.last_step)
        what = (
            f"the time that is left holds fewer steps, so the rate falls faster, not until {before:,}"
            if falling
            else "the learning rate begins to fall"
        )
        self.log.say(f"step {state.step:,}: {what}; step {ending.last_step:,} is the last")
        return True

    @property
    def _save_is_due(self) -> bool:
        """Returns whether this step is to be resumed from, or its weights may be those of the run's model."""
        return self._due(self.config.save_every) or bool(self.checkpoints.needed([self.state.step], self.state))

    def _save(self, due: bool = True) -> None:
        """Writes a checkpoint, or has its weights wait where the disk is full; hooks are told of those that are due."""
        self._read()
        started, state = time.perf_counter(), self.state
        if self.clock is not None:
            state.clock = self.clock.elapsed
        state.origin, state.replaced = self.origin, self.trained.replaced
        saved = False
        if self.ranks.is_first or self._sharding is not None:
            files = self.trained.files
            if self._sharding is not None:
                files = {name: whole_ones(tensors, self.ranks.is_first) for name, tensors in files.items()}
            saved = self.ranks.is_first and self.saving.save(state, files)
        self.ranks.wait()
        if self.clock is not None:
            self.clock.saved(time.perf_counter() - started)
        if saved and due and self.hooks.checkpoint:
            event = CheckpointEvent(**self._standing(self._last_loss), folder=self.checkpoints.path_of(state.step))
            if numbers := events.call(self.hooks.checkpoint, event):
                self.log.write("checkpoint", state.step, **numbers)

    def _choose(self) -> None:
        """Publishes the best of what the run's model can be: one checkpoint or a mean, each validated on all there is.

        Nothing that is read here is written, so a run that is killed in between chooses once more.
        """
        started, state = time.perf_counter(), self.state
        candidates = self.checkpoints.candidates(state)
        if {candidate.name for candidate in candidates} <= {"best"}:
            self._choose_best()
            return
        found = []
        for candidate in candidates:
            average_into(self.model, candidate.paths)
            found.append(self._found_by(self.validate_all or self.validate))
            self.log.say(f"{candidate}: {found[-1]}")
        best = winner(found, self.config.best_by)
        average_into(self.model, candidates[best].paths)
        if weights := self._weights():
            self.publish(weights)
        for i, (candidate, numbers) in enumerate(zip(candidates, found, strict=True)):
            values = {"candidate": candidate.name, "checkpoints": candidate.steps, "kept": i == best}
            self.log.write("candidate", state.step, **values, **numbers.numbers)
        state.seconds += time.perf_counter() - started
        set_result(found[best], state)
        self.chosen = str(candidates[best])
        self.log.say(f"kept: {self.chosen}; the checkpoints of the others stay in `{self.checkpoints.folder}`")

    def _choose_best(self) -> None:
        """Makes the best validation's weights the run's model, where nothing else can be it."""
        self.chosen = f"the best validation (step {self.state.best_step:,})"
        if not (weights := self._weights()):
            return
        self._publish_best_again()
        if self.published is not None and self.published() is None:
            self.chosen = f"the last step ({self.state.step:,}), since the best weights are lost"
            self.publish(weights)
            self.log.say(f"warning: kept: {self.chosen}")

    def _tell_of_end(self) -> None:
        """Calls the hooks of the end, and writes their numbers."""
        if self.hooks.end:
            loss = math.nan if self.state.best_loss is None else self.state.best_loss
            if numbers := events.call(self.hooks.end, EndEvent(**self._standing(loss), chosen=self.chosen)):
                self.log.write("end", self.state.step, **numbers)

    def _due(self, every: int) -> bool:
        return self.state.step % every == 0 or self.state.step == self.last_step


def _tokens(batches: list[Batch]) -> int:
    """Returns the target tokens without padding."""
    return sum(batch.num_tokens for batch in batches)


def _can_leave_out_updates(optimizer: Any) -> bool:
    """Tells whether an optimizer changes nothing where a number on the device says so: PyTorch's fused ones, and Muon.

    A step that somebody has written anew, and hooks behind it, may change weights all the same.
    """
    own = type(optimizer) is Muon or type(optimizer).step.__module__.startswith("torch.optim.")
    hooks = getattr(optimizer, "_optimizer_step_post_hooks", None)
    return own and not hooks and bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def _seed_of(seed: int, step: int, place: int = 0) -> int:
    """Returns a seed for each batch of a step, unlike those of other batches, steps and runs."""
    text = f"{seed}/{step}/{place}" if place else f"{seed}/{step}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
