"""The training loop: section 5 of the paper in the order in which it happens."""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from pellucid.config import TrainConfig
from pellucid.data.batching import Batch, batch_order, draw_batch
from pellucid.data.sentences import Indices
from pellucid.data.shards import Shard
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.model.families import Model, SequenceClassifier
from pellucid.training import events
from pellucid.training.adam import PaperAdam
from pellucid.training.events import CheckpointEvent, EndEvent, Hooks, StepEvent, ValidationEvent
from pellucid.training.failures import diverged, in_parts, is_out_of_memory, not_finite, too_long_for_memory
from pellucid.training.interrupts import Interrupted, Interrupts
from pellucid.training.log import RunLog
from pellucid.training.loss import Loss, check_losses, make_loss, name_of
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
from pellucid.training.saving import Saving
from pellucid.training.schedule import UNDECIDED, Clock, Ending, Schedule, fall_from, own_rate, planned_ending
from pellucid.training.state import Checkpoints, Meter, RunState, Trained, average_into, read_weights
from pellucid.training.validation import Validation, record, set_result, winner
from pellucid.weights.tensors import parameters


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
    state: RunState = field(default_factory=RunState)
    chosen: str = ""
    """The choice of the run's model, once it is chosen: the best validation, or one of the means."""

    def __post_init__(self) -> None:
        model, config = self.model, self.config
        multiply_in(model, config.precision)
        loss: Loss = make_loss(config) if self.loss is None else self.loss
        if isinstance(loss, nn.Module):
            loss.to(next(model.parameters()).device)
        optimizer: Any = make_optimizer(model, config, loss) if self.optimizer is None else self.optimizer
        if callable(optimizer):
            optimizer = optimizer(model)
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
        self._last_loss, self._last_rate, self._first_step, self._stopping = math.nan, 0.0, 1, False

    def train(self) -> RunState:
        """Trains from the newest checkpoint, or from the start, to the last step; then chooses the model.

        Raises Interrupted, with the state saved, after SIGINT, SIGTERM or SIGHUP; PellucidError when the loss is not
        finite, or a single sentence does not fit into memory; OSError when at the end the disk does not take what
        waits.
        """
        self._restore()
        order = batch_order(self.shard, self.config.batch_tokens, self.config.seed)
        stream = order.follow(self.state.epoch, self.state.position)
        with Interrupts() as interrupts:
            while self.state.step < self.last_step:
                norm = self._timed_step(stream)
                numbers = self._tell_of_step(norm) if self.hooks.step else {}
                if self._stopping and self.state.step < self.last_step:
                    self._end_here("a hook asked for it")
                if self._due(self.config.log_every):
                    self._report(norm, numbers)
                elif numbers:
                    self.log.write("step", self.state.step, **numbers)
                falls = False
                if self._due(self.config.validate_every):
                    self._validate()
                    falls = self._fall_on_a_plateau()
                    self._end_early(norm)
                due = falls or self._clock_decides() or self._save_is_due
                if due or interrupts.received:
                    self._save(due)
                if interrupts.received and self.state.step < self.last_step:
                    raise Interrupted(interrupts.received, self.state.step, self.checkpoints.last_step_saved)
        self.saving.write_what_waits()
        self._choose()
        self._tell_of_end()
        self.log.flush()
        return self.state

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

    def step(self, batches: list[Batch]) -> tuple[float, float]:
        """Takes one optimizer step; returns the summed loss that is reported, and the gradient's norm."""
        step = self.state.step + 1
        rate = self._last_rate = self._rate(step)
        set_rate(self.trained.optimizer, rate)
        loss = self._gradients_that_fit(batches, step)
        norm = get_total_norm([p.grad for p in self._parameters.values() if p.grad is not None])
        if self.config.grad_clip:
            clip_grads_with_norm_(self._parameters.values(), self.config.grad_clip, norm)
        if not math.isfinite(loss) or not math.isfinite(norm):
            what = f"loss {loss / _tokens(batches):.4g}, gradient norm {norm:.4g}, learning rate {rate:.3g}"
            is_finite = partial(self._is_finite, step=step)
            raise not_finite(self.model, batches, is_finite, self.text_of, f"step {step:,} ({what})")
        self.trained.optimizer.step()
        if self.moving_average is not None:
            self.moving_average.update(step)
        self.state.step = step
        self.state.tokens += _tokens(batches)
        return loss, float(norm)

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

    def _publish_best_again(self) -> None:
        """Publishes the best weights so far where the run's model is something else, or is not there."""
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

    def _timed_step(self, stream: Iterator[tuple[int, int, Indices]]) -> float:
        """Takes a step on the next batches; returns the gradient's norm."""
        started = time.perf_counter()
        places = [next(stream) for _ in range(self.config.accumulate)]
        batches = [self._batch(sentences, epoch) for epoch, _, sentences in places]
        loss, norm = self.step(batches)
        if self.state.step == self._first_step:  # an optimizer has its state now: what cannot be saved is said at once
            saved_state(self.trained.optimizer, self._parameters)
        self.state.epoch, self.state.position, _ = places[-1]
        tokens = _tokens(batches)
        self._last_loss = loss / tokens
        self.state.meter.add(loss, tokens, time.perf_counter() - started)
        return norm

    def _batch(self, sentences: Indices, epoch: int) -> Batch:
        batch = draw_batch(self.shard, sentences, self.model.config, self.sampling, epoch)
        return batch.to(next(self.model.parameters()).device)

    def _gradients_that_fit(self, batches: list[Batch], step: int) -> float:
        """Does what `_gradients` does, with smaller parts where memory does not suffice."""
        while True:
            try:
                return self._gradients(batches, step)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            # Out of the except clause: what the failed pass still held is free now.
            self._halve_parts(batches, step)

    def _gradients(self, batches: list[Batch], step: int) -> float:
        """Leaves the gradient of the mean loss per token in the parameters; returns the summed loss to report."""
        # Dropout follows from (seed, step) alone, so nothing of it has to be saved.
        torch.manual_seed(_seed_of(self.config.seed, step))
        self.model.train()
        for parameter in self._parameters.values():
            parameter.grad = None
        tokens, loss = _tokens(batches), torch.zeros(())
        for batch in batches:
            for part in in_parts(batch, self.state.parts):
                with autocast(self.model):
                    losses = check_losses(self.trained.loss(self.model, part), self.trained.loss)
                (losses.minimised / tokens).backward()  # type: ignore[no-untyped-call]
                loss += losses.reported.detach().cpu()
        return float(loss)

    def _is_finite(self, batch: Batch, step: int) -> bool:
        """Returns whether loss and gradient of a batch, computed once more, are finite."""
        loss = self._gradients([batch], step)
        gradients = (p.grad for p in self._parameters.values() if p.grad is not None)
        return math.isfinite(loss) and all(bool(torch.isfinite(g).all()) for g in gradients)

    def _halve_parts(self, batches: list[Batch], step: int) -> None:
        """Takes the batches of this step and of all later ones in twice as many parts."""
        if self.state.parts >= max(len(batch.src) for batch in batches):
            raise too_long_for_memory(batches, step)
        self.state.parts *= 2
        self.log.write("out_of_memory", self.state.step, parts=self.state.parts)
        self.log.say(
            f"out of memory at step {step:,}: from here on batches are taken in {self.state.parts} parts; the gradient "
            "is the same up to rounding, dropout draws other numbers"
        )
        # Before the step is repeated, so that a resumed run takes the same steps in parts.
        if self.state.step:
            self._save(due=False)

    def _tell_of_step(self, norm: float) -> dict[str, float]:
        """Calls the hooks of a step; returns their numbers."""
        event = StepEvent(**self._standing(self._last_loss), **self._steering, gradient_norm=norm)
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

    def _report(self, norm: float, numbers: Mapping[str, float] = MappingProxyType({})) -> None:
        """Writes the line of the steps since the last report, with the numbers of this step's hooks."""
        state = self.state
        meter, state.meter = state.meter, Meter()
        state.seconds += meter.seconds
        values = {
            "loss": round(meter.loss, 4),
            "learning_rate": self._last_rate,
            "gradient_norm": round(norm, 4),
            "epoch": state.epoch,
            "tokens": state.tokens,
            "tokens_per_second": round(meter.speed),
            "seconds": round(state.seconds, 2),
        }
        self.log.write("train", state.step, **values, **numbers)
        unit = "texts" if isinstance(self.model, SequenceClassifier) else "tokens"
        self.log.progress(state.step, f"loss {meter.loss:.3f}, {meter.speed:,.0f} {unit}/s, rate {self._last_rate:.2e}")

    def _validate(self) -> None:
        """Validates, and publishes the weights where they are the best so far."""
        started, step, numbers = time.perf_counter(), self.state.step, dict[str, float]()
        # A moving average takes the weights' place wherever weights are judged or published.
        with nullcontext() if self.moving_average is None else self.moving_average.in_place():
            found = self._found_by(self.validate)
            if not math.isfinite(found.loss):
                raise diverged(self.model, found.loss, step, self._last_rate, self.config.init_from)
            better = record(found, self.state, self.config)
            if better:
                self.saving.publish(step, parameters(self.model))
            if self.hooks.validation:
                told = self._standing(found.loss) | self._steering
                event = ValidationEvent(**told, numbers=found.numbers, best=better)
                numbers = events.call(self.hooks.validation, event)
        seconds = time.perf_counter() - started
        self.state.seconds += seconds
        if self.clock is not None:
            self.clock.validated(seconds)
        self.log.write("validation", step, **found.numbers, best=better, **numbers)
        self.log.say(f"step {step:,}: {found}{', the best so far' if better else ''}")
        if found.sample:
            self.log.say(found.sample)

    def _found_by(self, validate: Callable[[], Validation]) -> Validation:
        self.model.eval()
        with torch.inference_mode():
            return validate()

    def _end_early(self, norm: float) -> None:
        """Makes this step the last one where a hook asks for it, or validation has not got better for too long."""
        state, patience = self.state, self.config.patience
        without = patience and state.bad_validations >= patience and not self._rate_falls_first
        if state.step == self.last_step or not (self._stopping or without):
            return
        if state.meter.tokens:
            self._report(norm)
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
        self.log.write("plateau", state.step, last_step=ending.last_step, lowest_loss=state.lowest_loss)
        self.log.ends_at(ending.last_step)
        without = f"{config.patience} validation{'s' * (config.patience > 1)} without a loss below"
        self.log.say(
            f"step {state.step:,}: {without} {state.lowest_loss:.3f} (`train.patience`): the learning rate begins to "
            f"fall; step {ending.last_step:,} is the last"
        )
        return True

    def _clock_decides(self) -> bool:
        """Returns whether the clock lets the rate fall from this step on. It is saved at once, to be replayed."""
        state = self.state
        ending = None if self.clock is None or state.last_step else self.clock.ending(state.step)
        if ending is None:
            return False
        state.falls_at, state.last_step = ending.falls_at, ending.last_step
        self.log.write("clock", state.step, last_step=ending.last_step)
        self.log.ends_at(ending.last_step)
        self.log.say(f"step {state.step:,}: the learning rate begins to fall; step {ending.last_step:,} is the last")
        return True

    @property
    def _save_is_due(self) -> bool:
        """Returns whether this step is to be resumed from, or its weights may be those of the run's model."""
        return self._due(self.config.save_every) or bool(self.checkpoints.needed([self.state.step], self.state))

    def _save(self, due: bool = True) -> None:
        """Writes a checkpoint, or has its weights wait where the disk is full; hooks are told of those that are due."""
        started, state = time.perf_counter(), self.state
        if self.clock is not None:
            state.clock = self.clock.elapsed
        state.origin, state.replaced = self.origin, self.trained.replaced
        saved = self.saving.save(state, self.trained)
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
        self.publish(parameters(self.model))
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
        self._publish_best_again()
        if self.published is not None and self.published() is None:
            self.chosen = f"the last step ({self.state.step:,}), since the best weights are lost"
            self.publish(parameters(self.model))
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


def _seed_of(seed: int, step: int) -> int:
    """Returns a seed for each step, unlike those of other steps and runs."""
    digest = hashlib.blake2b(f"{seed}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
