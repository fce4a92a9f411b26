"""The training loop: section 5 of the paper in the order in which it happens.

step.py        one optimizer step: rate, gradient, clipping, update
gradients.py   its gradient: accumulated over batches, in parts that fit into memory, summed over ranks
stopping.py    when the run ends: steps, time budget, plateau, patience, request
selection.py   validation, the best weights so far, and the model at the end
saving.py      checkpoints and published weights, on a disk that may be full
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from torch import nn

from pellucid.config import TrainConfig
from pellucid.data.batching import Batch, collate_batch, make_batch_sampler
from pellucid.data.shards import EncodedCorpus
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import PellucidError
from pellucid.model.families import Model, SequenceClassifier
from pellucid.model.layers import set_gradient_checkpointing
from pellucid.training import events
from pellucid.training.adam import PaperAdam
from pellucid.training.events import CheckpointEvent, EndEvent, Hooks, StepEvent, ValidationEvent
from pellucid.training.gradients import Gradients
from pellucid.training.interrupts import Interrupts, TrainingInterrupted
from pellucid.training.log import RunLog
from pellucid.training.loss import Loss, get_callable_name, make_loss
from pellucid.training.optimizer import (
    MovingAverage,
    Optimizer,
    Tensors,
    check_optimizer,
    make_optimizer,
    named_parameters,
)
from pellucid.training.precision import set_compute_dtype
from pellucid.training.ranks import SINGLE_PROCESS, DistributedContext
from pellucid.training.saving import CheckpointWriter
from pellucid.training.schedule import UNDECIDED, BudgetClock, Schedule
from pellucid.training.selection import ModelSelection
from pellucid.training.sharding import Replicas, Sharding, check_shardable
from pellucid.training.state import Checkpoints, Meter, RunState, TrainableState
from pellucid.training.step import TrainStep
from pellucid.training.stopping import StopCriteria
from pellucid.training.validation import Validation
from pellucid.weights.sharded import gather_full_tensors


class Trainer:
    """Trains a model: `train` is the loop, and the other methods are its steps.

    Args:
        validate: validates the model, in evaluation mode.
        publish: writes weights as the run's model.
        published: returns the SHA-256 of the published weights, or None if there are none; None: they are not checked.
        loss: None: the settings' loss.
        optimizer: an optimizer over the model's parameters, or a function that makes one of the model; None: the
            settings' optimizer. Its first group gets the schedule's rate; the others keep their ratio to it.
        schedule: returns the learning rate of a step, counted from 1; None: the settings' schedule.
        validate_all: validates on the whole validation set, to select the model at the end; if None, `validate` is
            used.
        text_of: returns the text of a sentence pair, by its index, for a message.
        sampling: samples a new tokenization of a sentence each time it is used; if None, the stored one is used.
        has_start: the initial weights are trained ones, which are validated, published and saved before step 1.
        origin: the origin of the run, which is saved in its checkpoints.
        clock: ends a run with a time budget; if None, the settings determine the end.
        ranks: the processes that train together. Only rank 0 writes; the others have a log that writes nothing.

    Raises ConfigError for an optimizer that cannot be used.
    """

    def __init__(
        self,
        model: Model,
        shard: EncodedCorpus,
        config: TrainConfig,
        checkpoints: Checkpoints,
        log: RunLog,
        validate: Callable[[], Validation],
        publish: Callable[[Tensors], None],
        *,
        published: Callable[[], str | None] | None = None,
        loss: Loss | None = None,
        optimizer: Optimizer | Callable[[Any], Optimizer] | None = None,
        schedule: Callable[[int], float] | None = None,
        hooks: Hooks | None = None,
        validate_all: Callable[[], Validation] | None = None,
        text_of: Callable[[int], str] = "".format,
        sampling: SubwordSampling | None = None,
        has_start: bool = False,
        origin: dict[str, Any] | None = None,
        clock: BudgetClock | None = None,
        ranks: DistributedContext = SINGLE_PROCESS,
    ) -> None:
        self.model = model
        self.config = config
        self.shard = shard
        self.sampling = sampling
        self.log = log
        self.ranks = ranks
        self.has_start = has_start
        self.origin: dict[str, Any] = {} if origin is None else origin
        self.hooks: Hooks = Hooks() if hooks is None else hooks
        self.state: RunState = RunState()
        set_compute_dtype(model, config.precision)
        set_gradient_checkpointing(model, config.gradient_checkpointing)
        own_loss: Loss = make_loss(config) if loss is None else loss
        if isinstance(own_loss, nn.Module):
            own_loss.to(next(model.parameters()).device)
        is_sharded = config.fsdp and ranks.world_size > 1
        self.replicas: Replicas = (Sharding if is_sharded else Replicas)(model, own_loss, ranks)
        made: Any = make_optimizer(model, config, own_loss) if optimizer is None else optimizer
        if callable(made):
            made = made(model)
        if is_sharded:
            check_shardable(made)
        if warning := check_optimizer(made, named_parameters(model, own_loss)):
            log.log_line(f"warning: {warning}")
        average = MovingAverage(model, config.ema_decay) if config.ema_decay else None
        planned = Schedule(config, model.config.d_model)
        rate_of = planned if schedule is None else schedule
        of_settings = own_loss == make_loss(config), isinstance(made, PaperAdam), rate_of == planned
        pairs = zip(("loss", "optimizer", "schedule"), (own_loss, made, rate_of), of_settings, strict=True)
        replaced = {what: get_callable_name(part) for what, part, is_default in pairs if not is_default}
        self.trained: TrainableState = TrainableState(
            model, own_loss, made, average.tensors if average else None, replaced
        )
        self.stopping: StopCriteria = StopCriteria(config, rate_of, self.state, log, ranks, clock)
        gradients = Gradients(model, own_loss, config.seed, self.state, ranks, self.replicas, self._note_halved_parts)
        self.step: TrainStep = TrainStep(
            self.trained, average, gradients, config.grad_clip, self.state, ranks, self.replicas,
            self.stopping.learning_rate, text_of,
        )  # fmt: skip
        self.saving: CheckpointWriter = CheckpointWriter(checkpoints, publish, log)
        self.selection: ModelSelection = ModelSelection(
            model, config, self.state, self.saving, log, ranks, self.replicas, validate, publish,
            validate_all, published,
        )  # fmt: skip

    def train(self) -> RunState:
        """Trains from the newest checkpoint, or from the start, to the last step; then selects the model.

        Raises TrainingInterrupted, with the state saved, after SIGINT, SIGTERM or SIGHUP; PellucidError if the loss is
        not finite, or a single sentence does not fit into memory; OSError if the disk is full at the end of the run.
        """
        with self.replicas.explain_errors():
            self._restore()
            with Interrupts(self.ranks.world_size > 1) as interrupts:
                self._train(interrupts)
            self._finish()
        return self.state

    def _train(self, interrupts: Interrupts) -> None:
        state, config, stopping = self.state, self.config, self.stopping
        batches = self._batches()
        while not stopping.is_over:
            self._take_step(batches)
            numbers = self._call_step_hooks()
            received = stopping.agree(interrupts)
            stopping.stop_on_request()
            if stopping.is_due(config.log_every):
                self._report(numbers)
            elif numbers:
                self.log.write("step", state.step, **numbers)
            must_save = False
            if stopping.is_due(config.validate_every):
                self._validate()
                must_save = stopping.decay_on_plateau()
                self._stop_early()
            must_save = must_save or stopping.decay_in_time() or self._is_save_due
            received = received or (interrupts.received if self.ranks.world_size == 1 else None)
            if must_save or received:
                self._save(must_save)
            if received and not stopping.is_over:
                raise TrainingInterrupted(received, state.step, self.saving.checkpoints.last_step_saved)

    def stop(self) -> None:
        """Ends the run after this step, as if it were the last; called in a checkpoint's hook, after the next one."""
        self.stopping.requested = True

    def _restore(self) -> None:
        """Resumes from the newest checkpoint; without one, saves the weights of an initial model as the first."""
        state, stopping = self.state, self.stopping
        state.copy_from(self.saving.checkpoints.restore(self.trained, self.log.log_line))
        self._follow_the_first()
        self.log.resume_at(state.step)
        if stopping.clock is not None:
            stopping.clock.used = state.clock
        if state.last_step:
            self.log.ends_at(state.last_step)
        if state.best_loss is not None and not stopping.is_over:
            self.selection.repair()
        if state.step:
            of = "" if stopping.decay_plan is UNDECIDED else f" of {stopping.last_step:,}"
            self.log.log_line(f"resuming after step {state.step:,}{of}")
            self.step.rate = stopping.learning_rate(state.step)
        elif self.has_start and state.best_loss is None:
            self.log.resume_at(-1)
            self._validate()
            self._save()

    def _follow_the_first(self) -> None:
        """Broadcasts the weights, and keeps the number of batches per step if the number of ranks has changed.

        Raises PellucidError if ranks do not read the same checkpoints.
        """
        ranks, state = self.ranks, self.state
        steps = [int(step) for (step,) in ranks.all_gather([state.step])]
        if len(set(steps)) > 1:
            other = next(rank for rank, step in enumerate(steps) if step != steps[0])
            raise PellucidError(
                f"rank {other} has the run after step {steps[other]:,}, the first rank after step {steps[0]:,}",
                f"give all machines access to the same folder: `{self.saving.checkpoints.folder}`",
            )
        self.replicas.broadcast_weights()
        before = state.ranks if state.step else ranks.world_size
        batches = (state.accumulate or self.config.accumulate) * before
        accumulate = max(1, batches // ranks.world_size)
        now = accumulate * ranks.world_size
        if before != ranks.world_size:
            same = (
                f"a step has {now} batches, as before"
                if now == batches
                else (
                    f"a step has {now} batches instead of {batches}, which cannot be divided among "
                    f"{ranks.world_size} ranks"
                )
            )
            self.log.log_line(
                f"{'warning: ' * (now != batches)}this run had {before} rank{'s' * (before > 1)} and now has "
                f"{ranks.world_size}: the order of the texts is unchanged, {same}; the weights are the same up to "
                "rounding"
            )
        state.ranks = ranks.world_size
        state.accumulate = 0 if accumulate == self.config.accumulate else accumulate

    def _batches(self) -> Iterator[tuple[int, int, list[Batch]]]:
        """Yields for each step epoch and position after its batches, and this rank's batches."""
        config, ranks, state = self.config, self.ranks, self.state
        order = make_batch_sampler(self.shard, config.batch_tokens, config.seed, self.sampling)
        stream = order.iterate_from(state.epoch, state.position)
        while True:
            places = [next(stream) for _ in range((state.accumulate or config.accumulate) * ranks.world_size)]
            epoch, position, _ = places[-1]
            yield (
                epoch,
                position,
                [
                    collate_batch(self.shard, sentences, self.model.config, self.sampling, epoch)
                    for epoch, _, sentences in places[ranks.rank :: ranks.world_size]
                ],
            )

    def _take_step(self, batches: Iterator[tuple[int, int, list[Batch]]]) -> None:
        started = time.perf_counter()
        epoch, position, own = next(batches)
        taken = self.step(own)
        self.state.epoch, self.state.position = epoch, position
        self.step.count(taken, time.perf_counter() - started)

    def _note_halved_parts(self, where: str) -> None:
        """Saves the run before a step is repeated in smaller parts, so that a resumed run takes the same parts."""
        parts = self.state.parts
        self.log.write("out_of_memory", self.state.step, parts=parts)
        self.log.log_line(
            f"{where}: batches are split into {parts} parts from now on; the gradient is the same up to rounding, "
            "dropout uses other random numbers"
        )
        if self.state.step:
            self._save(due=False)

    def _report(self, numbers: Mapping[str, float] = MappingProxyType({})) -> None:
        """Writes the line of the steps since the last report, with the numbers of this step's hooks."""
        self.step.read()
        state, rate = self.state, self.step.rate
        meter, state.meter = state.meter, Meter()
        state.seconds += meter.seconds
        values = {
            "loss": round(meter.loss, 4),
            "learning_rate": rate,
            "gradient_norm": round(self.step.norm, 4),
            "epoch": state.epoch,
            "tokens": state.tokens,
            "tokens_per_second": round(meter.speed),
            "seconds": round(state.seconds, 2),
        }
        self.log.write("train", state.step, **values, **self.step.gradients.report_ranks(), **numbers)
        unit = "texts" if isinstance(self.model, SequenceClassifier) else "tokens"
        self.log.progress(state.step, f"loss {meter.loss:.3f}, {meter.speed:,.0f} {unit}/s, rate {rate:.2e}")

    def _validate(self) -> None:
        """Validates the weights, or their moving average, which are published if they are the best so far."""
        self.step.read()
        started, step, numbers = time.perf_counter(), self.state.step, dict[str, float]()
        with self.step.use_averaged_weights():
            found, is_best = self.selection.validate(self.step.rate)
            if self.hooks.validation:
                event = ValidationEvent(
                    **self._event_values(found.loss), **self._event_functions, numbers=found.numbers, best=is_best
                )
                numbers = events.call(self.hooks.validation, event)
        self.stopping.requested = self.ranks.any(self.stopping.requested)
        seconds = time.perf_counter() - started
        self.state.seconds += seconds
        if self.stopping.clock is not None:
            self.stopping.clock.add_validation_time(seconds)
        self.log.write("validation", step, **found.numbers, best=is_best, **numbers)
        self.log.log_line(f"step {step:,}: {found}{', the best so far' if is_best else ''}")
        for more in filter(None, (found.of_pairs, found.sample)):
            self.log.log_line(more)

    def _stop_early(self) -> None:
        """Makes this step the last one if a hook has requested it, or validation has not improved for too long."""
        stopping = self.stopping
        if stopping.is_over or not (stopping.requested or stopping.is_out_of_patience):
            return
        if self.state.meter.tokens:
            self._report()
        if stopping.requested:
            stopping.stop_on_request()
        else:
            stopping.stop_out_of_patience()

    @property
    def _is_save_due(self) -> bool:
        """Returns True if this step is to be resumed from, or its weights may become the run's model."""
        needed = self.saving.checkpoints.list_needed([self.state.step], self.state)
        return self.stopping.is_due(self.config.save_every) or bool(needed)

    def _save(self, due: bool = True) -> None:
        """Writes a checkpoint, or keeps its weights in memory while the disk is full; calls hooks if it is due."""
        self.step.read()
        started, state, clock = time.perf_counter(), self.state, self.stopping.clock
        if clock is not None:
            state.clock = clock.elapsed
        state.origin, state.replaced = self.origin, self.trained.replaced
        saved = False
        if self.ranks.is_first or self.replicas.is_sharded:
            files = self.trained.files
            if self.replicas.is_sharded:
                files = {name: gather_full_tensors(tensors, self.ranks.is_first) for name, tensors in files.items()}
            saved = self.ranks.is_first and self.saving.save(state, files)
        self.ranks.barrier()
        if clock is not None:
            clock.add_checkpoint_time(time.perf_counter() - started)
        if saved and due and self.hooks.checkpoint:
            folder = self.saving.checkpoints.get_path(state.step)
            event = CheckpointEvent(**self._event_values(self.step.loss), folder=folder)
            if numbers := events.call(self.hooks.checkpoint, event):
                self.log.write("checkpoint", state.step, **numbers)

    def _finish(self) -> None:
        """Selects the model, and calls the hooks of the end."""
        if self.ranks.is_first:
            self.saving.write_what_waits()
        self.ranks.barrier()  # the candidates are written
        self.selection.select()
        self.replicas.end()
        if self.hooks.end:
            loss = math.nan if self.state.best_loss is None else self.state.best_loss
            event = EndEvent(**self._event_values(loss), chosen=self.selection.chosen)
            if numbers := events.call(self.hooks.end, event):
                self.log.write("end", self.state.step, **numbers)
        self.log.flush()

    def _call_step_hooks(self) -> dict[str, float]:
        """Calls the hooks of a step; returns their numbers."""
        if not self.hooks.step:
            return {}
        self.step.read()
        event = StepEvent(**self._event_values(self.step.loss), **self._event_functions, gradient_norm=self.step.norm)
        return events.call(self.hooks.step, event)

    def _event_values(self, loss: float) -> dict[str, Any]:
        """Returns the values of every event."""
        state = self.state
        return {"step": state.step, "loss": loss, "tokens": state.tokens, "learning_rate": self.step.rate}

    @property
    def _event_functions(self) -> dict[str, Any]:
        """Returns the functions of an event by which a hook can act on the run."""

        def scale_rate(factor: float) -> None:
            self.state.rate_factor *= events.check_factor(factor)

        return {"stop": self.stop, "scale_rate": scale_rate}
