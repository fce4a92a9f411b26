"""The training loop: section 5 of the paper in the order in which it happens."""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.config import TrainConfig
from pellucid.data.batching import Batch, batch_order, draw_batch
from pellucid.data.sentences import Indices
from pellucid.data.shards import Shard
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.errors import PellucidError
from pellucid.model.transformer import DecoderOnly, Model, SequenceClassifier, Transformer
from pellucid.training.clock import Clock
from pellucid.training.interrupts import Interrupted, Interrupts
from pellucid.training.log import RunLog
from pellucid.training.loss import projected_cross_entropy, projected_r_drop, r_drop_loss, smoothed_cross_entropy
from pellucid.training.memory import in_parts, is_out_of_memory
from pellucid.training.moving_average import MovingAverage
from pellucid.training.not_finite import explain
from pellucid.training.optimizer import make_optimizer
from pellucid.training.precision import autocast, multiply_in
from pellucid.training.saving import Saving
from pellucid.training.schedule import UNDECIDED, Ending, fall_from, learning_rate, planned_ending
from pellucid.training.state import Checkpoints, Meter, RunState, Tensors, read_weights
from pellucid.training.validation import Validation, set_numbers, take_in, winner
from pellucid.weights.tensors import mean_of, parameters, set_parameters

LOWER_RATE = (
    "start over with --fresh and a lower `train.learning_rate`, a longer `train.warmup_steps`, or `train.grad_clip`"
)
BROKEN = "copy that model again, or start from another one"


@dataclass
class Trainer:
    """A run's parts and where it stands. `train` is the loop; the rest of the methods are its lines."""

    model: Model
    shard: Shard
    config: TrainConfig
    checkpoints: Checkpoints
    log: RunLog
    validate: Callable[[], Validation]
    keep: Callable[[Tensors], None]
    """Writes weights as the run's model."""
    kept: Callable[[], str | None] | None = None
    """The SHA-256 of the run's model as it lies on the disk, None where it does not; without it nothing is checked."""
    validate_all: Callable[[], Validation] | None = None
    """Validates on all that is held out, to choose the model at the end; None: as `validate` does."""
    text_of: Callable[[int], str] = "".format
    """Both sides of a sentence pair, by its index, for a message."""
    sampling: SubwordSampling | None = None
    """Cuts each sentence anew when it is drawn; None: always into its stored pieces."""
    has_start: bool = False
    """Whether the model begins with trained weights: they are validated, kept and saved before step 1."""
    origin: dict[str, Any] = field(default_factory=dict)
    """What the run comes from, for its checkpoints to keep."""
    clock: Clock | None = None
    """Ends a run that has a time budget; None: the settings say how the run ends."""
    state: RunState = field(default_factory=RunState)
    chosen: str = ""
    """What the run's model is, once it is chosen: the best validation, or one of the means."""

    def __post_init__(self) -> None:
        multiply_in(self.model, self.config.precision)
        self.optimizer = make_optimizer(self.model, self.config)
        decay = self.config.ema_decay
        self.moving_average = MovingAverage(self.model, decay) if decay else None
        self.saving = Saving(self.checkpoints, self.keep, self.log)

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
                if self._due(self.config.log_every):
                    self._report(norm)
                falls = False
                if self._due(self.config.validate_every):
                    self._validate()
                    falls = self._fall_on_a_plateau()
                    self._end_without_progress(norm)
                if falls or self._clock_decides() or self._save_is_due or interrupts.received:
                    self._save()
                if interrupts.received and self.state.step < self.last_step:
                    raise Interrupted(interrupts.received, self.state.step, self.checkpoints.last_step_saved)
        self.saving.write_what_waits()
        self._choose()
        self.log.flush()
        return self.state

    @property
    def last_step(self) -> int:
        """The step that ends the run: the configured one, unless something has moved it."""
        return self.state.last_step or self.ending.last_step

    @property
    def ending(self) -> Ending:
        """How the run ends, as far as that is known."""
        if self.state.falls_at:
            return Ending(self.state.falls_at, self.state.last_step)
        return planned_ending(self.config) if self.clock is None else UNDECIDED

    def step(self, batches: list[Batch]) -> tuple[float, float]:
        """One optimizer step; returns the summed cross-entropy and the gradient's norm."""
        step = self.state.step + 1
        rate = learning_rate(step, self.config, self.model.config.d_model, self.ending)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = self._gradients_that_fit(batches, step)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip or math.inf)
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise self._not_finite(batches, loss, float(norm), rate)
        self.optimizer.step()
        if self.moving_average is not None:
            self.moving_average.update(step)
        self.state.step = step
        self.state.tokens += _tokens(batches)
        return loss, float(norm)

    def _restore(self) -> None:
        self.state = self.checkpoints.restore(self.model, self.optimizer, self.log.say, self._ema)
        self.log.resume_at(self.state.step)
        if self.clock is not None:
            self.clock.used = self.state.clock
        if self.state.last_step:
            self.log.ends_at(self.state.last_step)
        if self.state.best_loss is not None and self.state.step < self.last_step:
            self._put_back()
        if self.state.step:
            of = "" if self.ending is UNDECIDED else f" of {self.last_step:,}"
            self.log.say(f"resuming after step {self.state.step:,}{of}")
        elif self.has_start and self.state.best_loss is None:
            self.log.resume_at(-1)
            self._validate()
            self._save()

    def _put_back(self) -> None:
        """Has the best weights so far be the run's model again, where something else lies there, or nothing."""
        state = self.state
        found, saved = self.kept() if self.kept else None, self.checkpoints.weights_of_step(state.best_step)
        if self.kept is None or (found is not None and saved is None) or (saved and saved[1] == found):
            return
        was = "is not there any more" if found is None else "is not the best so far"
        if saved is None:
            self.log.say(f"warning: the run's model, of step {state.best_step:,}, {was}, and no checkpoint holds it")
            return
        self.saving.keep(state.best_step, read_weights(saved[0]))
        self.log.say(f"the run's model {was}: it is put back from `{saved[0]}`")

    def _timed_step(self, stream: Iterator[tuple[int, int, Indices]]) -> float:
        """A step on the next batches; returns the gradient's norm."""
        started = time.perf_counter()
        places = [next(stream) for _ in range(self.config.accumulate)]
        batches = [self._batch(sentences, epoch) for epoch, _, sentences in places]
        loss, norm = self.step(batches)
        self.state.epoch, self.state.position, _ = places[-1]
        self.state.meter.add(loss, _tokens(batches), time.perf_counter() - started)
        return norm

    def _batch(self, sentences: Indices, epoch: int) -> Batch:
        batch = draw_batch(self.shard, sentences, self.model.config, self.sampling, epoch)
        return batch.to(next(self.model.parameters()).device)

    def _gradients_that_fit(self, batches: list[Batch], step: int) -> float:
        """`_gradients`, with smaller parts where memory does not suffice."""
        while True:
            try:
                return self._gradients(batches, step)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            # Out of the except clause: what the failed pass still held is free now.
            self._halve_parts(batches, step)

    def _gradients(self, batches: list[Batch], step: int) -> float:
        """Leaves the gradient of the mean loss per token in the parameters; returns the summed cross-entropy."""
        # Dropout follows from (seed, step) alone, so nothing of it has to be saved.
        torch.manual_seed(_seed_of(self.config.seed, step))
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        tokens, loss = _tokens(batches), torch.zeros(())
        for batch in batches:
            for part in in_parts(batch, self.state.parts):
                found = batch_losses(self.model, part, self.config.label_smoothing, self.config.r_drop)
                (found.minimised / tokens).backward()  # type: ignore[no-untyped-call]
                loss += found.cross_entropy.detach().cpu()
        return float(loss)

    def _halve_parts(self, batches: list[Batch], step: int) -> None:
        """Has this step and all later ones take their batches in twice as many parts."""
        if self.state.parts >= max(len(batch.src) for batch in batches):
            source, target = (max(ids.size(1) for ids in side) for side in _sides(batches))
            raise PellucidError(
                f"out of memory at step {step:,} with one sentence at a time, the longest of {source:,} source and "
                f"{target:,} target tokens",
                "start over with --fresh and a lower `data.max_length` or a smaller model, or use another device",
            )
        self.state.parts *= 2
        self.log.write("out_of_memory", self.state.step, parts=self.state.parts)
        self.log.say(
            f"out of memory at step {step:,}: from here on batches are taken in {self.state.parts} parts; the gradient "
            "is the same up to rounding, dropout draws other numbers"
        )
        # Before the step is repeated, so that a resumed run takes the same steps in parts.
        if self.state.step:
            self._save()

    def _not_finite(self, batches: list[Batch], loss: float, norm: float, rate: float) -> PellucidError:
        step = self.state.step + 1

        def is_finite(batch: Batch) -> bool:
            found = self._gradients([batch], step)
            gradients = (p.grad for p in self.model.parameters() if p.grad is not None)
            return math.isfinite(found) and all(bool(torch.isfinite(g).all()) for g in gradients)

        return PellucidError(
            f"the loss is not finite at step {step:,} (loss {loss / _tokens(batches):.4g}, gradient norm {norm:.4g}, "
            f"learning rate {rate:.3g}); the weights were not changed; "
            + explain(self.model, batches, is_finite, self.text_of),
            LOWER_RATE,
        )

    def _diverged(self, found: Validation) -> PellucidError:
        step, broken = self.state.step, [n for n, p in self.model.named_parameters() if not torch.isfinite(p).all()]
        if not step:
            name = f"`{self.config.init_from}`"
            return PellucidError(
                f"the weights of {name}, which the run starts from, give a loss of {found.loss}", BROKEN
            )
        rate = self.optimizer.param_groups[0]["lr"]
        what = (
            f"{len(broken)} parameters are not finite (first: `{broken[0]}`)" if broken else "the weights are too large"
        )
        return PellucidError(
            f"the loss is not finite in the validation after step {step:,} (loss {found.loss:.4g}, learning rate "
            f"{rate:.3g}); {what}",
            LOWER_RATE,
        )

    def _report(self, norm: float) -> None:
        state = self.state
        meter, state.meter = state.meter, Meter()
        state.seconds += meter.seconds
        rate = self.optimizer.param_groups[0]["lr"]
        values = {
            "loss": round(meter.loss, 4),
            "learning_rate": rate,
            "gradient_norm": round(norm, 4),
            "epoch": state.epoch,
            "tokens": state.tokens,
            "tokens_per_second": round(meter.speed),
            "seconds": round(state.seconds, 2),
        }
        self.log.write("train", state.step, **values)
        unit = "texts" if isinstance(self.model, SequenceClassifier) else "tokens"
        self.log.progress(state.step, f"loss {meter.loss:.3f}, {meter.speed:,.0f} {unit}/s, rate {rate:.2e}")

    def _validate(self) -> None:
        started = time.perf_counter()
        # A moving average takes the weights' place wherever weights are judged or kept.
        with nullcontext() if self.moving_average is None else self.moving_average.in_place():
            found = self._validation(self.validate)
            if not math.isfinite(found.loss):
                raise self._diverged(found)
            better = take_in(found, self.state, self.config)
            if better:
                self.saving.keep(self.state.step, parameters(self.model))
        seconds = time.perf_counter() - started
        self.state.seconds += seconds
        if self.clock is not None:
            self.clock.validated(seconds)
        self.log.write("validation", self.state.step, **found.numbers, best=better)
        self.log.say(f"step {self.state.step:,}: {found}{', the best so far' if better else ''}")
        if found.sample:
            self.log.say(found.sample)

    def _validation(self, validate: Callable[[], Validation]) -> Validation:
        self.model.eval()
        with torch.inference_mode():
            return validate()

    def _end_without_progress(self, norm: float) -> None:
        """Makes this step the last one where validation has not got better for too long."""
        state, patience = self.state, self.config.patience
        if self.config.schedule == "stable":  # its rate falls first
            return
        if not patience or state.bad_validations < patience or state.step == self.last_step:
            return
        state.last_step, state.stopped_early = state.step, True
        if state.meter.tokens:
            self._report(norm)
        self.log.write("stop", state.step, bad_validations=state.bad_validations, best_step=state.best_step)
        self.log.say(
            f"step {state.step:,} is the last of {self.config.steps:,}: {patience} validations without a new best "
            f"(`train.patience`); the best was at step {state.best_step:,}"
        )

    def _fall_on_a_plateau(self) -> bool:
        """Whether after this step a stable rate begins to fall, as the validation loss has not got lower for too long.

        It is saved at once, like the clock's decision; the run ends with the fall, however much time is left.
        """
        state, config = self.state, self.config
        stable = config.schedule == "stable" and config.warmup_steps < state.step < self.ending.falls_at
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
        """Whether after this step the rate begins to fall. It is saved at once, so that a resumed run replays it."""
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
        """Whether this step is to be resumed from, or its weights may be those of the run's model."""
        return self._due(self.config.save_every) or bool(self.checkpoints.needed([self.state.step], self.state))

    @property
    def _ema(self) -> Tensors | None:
        return None if self.moving_average is None else self.moving_average.tensors

    def _save(self) -> None:
        started = time.perf_counter()
        if self.clock is not None:
            self.state.clock = self.clock.elapsed
        self.state.origin = self.origin
        self.saving.save(self.state, self.model, self.optimizer, self._ema)
        if self.clock is not None:
            self.clock.saved(time.perf_counter() - started)

    def _choose(self) -> None:
        """Keeps the best of what the run's model can be: one checkpoint or a mean, each validated on all there is.

        Nothing that is read here is written, so a run that is killed in between chooses once more.
        """
        started, state = time.perf_counter(), self.state
        candidates = self.checkpoints.candidates(state)
        if {candidate.name for candidate in candidates} <= {"best"}:
            self._keep_best()
            return
        found = []
        for candidate in candidates:
            average_into(self.model, candidate.paths)
            found.append(self._validation(self.validate_all or self.validate))
            self.log.say(f"{candidate}: {found[-1]}")
        best = winner(found, self.config.best_by)
        average_into(self.model, candidates[best].paths)
        self.keep(parameters(self.model))
        for i, (candidate, numbers) in enumerate(zip(candidates, found, strict=True)):
            values = {"candidate": candidate.name, "checkpoints": candidate.steps, "kept": i == best}
            self.log.write("candidate", state.step, **values, **numbers.numbers)
        state.seconds += time.perf_counter() - started
        set_numbers(found[best], state)
        self.chosen = str(candidates[best])
        self.log.say(f"kept: {self.chosen}; the checkpoints of the others stay in `{self.checkpoints.folder}`")

    def _keep_best(self) -> None:
        """Has the best validation's weights be the run's model, where nothing else can be it."""
        self.chosen = f"the best validation (step {self.state.best_step:,})"
        self._put_back()
        if self.kept is not None and self.kept() is None:
            self.chosen = f"the last step ({self.state.step:,}), since the best weights are lost"
            self.keep(parameters(self.model))
            self.log.say(f"warning: kept: {self.chosen}")

    def _due(self, every: int) -> bool:
        return self.state.step % every == 0 or self.state.step == self.last_step


class Losses(NamedTuple):
    """The loss of a batch, summed over its target tokens; of a classifier over its texts."""

    minimised: Tensor
    cross_entropy: Tensor
    """What is reported: all of it, but for the divergence that R-Drop adds."""


def batch_losses(model: Model, batch: Batch, label_smoothing: float, r_drop: float = 0.0) -> Losses:
    """The loss of one pass or, with `r_drop`, of two (training/loss.py)."""
    if isinstance(model, SequenceClassifier):
        with autocast(model):
            logits = model(batch.src.repeat_interleave(2, dim=0) if r_drop else batch.src).float()  # (B or 2 B, C)
        if not r_drop:
            loss = smoothed_cross_entropy(logits, batch.tgt_out[:, 0], label_smoothing)
            return Losses(loss, loss)
        return Losses(*r_drop_loss(logits[0::2], logits[1::2], batch.tgt_out[:, 0], r_drop, label_smoothing))
    assert isinstance(model, Transformer | DecoderOnly)
    projection, pad_id = model.output_projection, batch.tgt_pad_id
    with autocast(model):
        if not r_drop:
            states = _states(model, batch.src, batch.tgt_in)  # (B, T, D)
            loss = projected_cross_entropy(states, batch.tgt_out, projection, label_smoothing, pad_id)
            return Losses(loss, loss)
        # Both passes as one batch: each row draws its own dropout.
        first, second = _states(model, batch.src.repeat(2, 1), batch.tgt_in.repeat(2, 1)).chunk(2)  # (B, T, D)
        return Losses(*projected_r_drop(first, second, batch.tgt_out, projection, r_drop, label_smoothing, pad_id))


def _states(model: Transformer | DecoderOnly, src: Tensor, tgt_in: Tensor) -> Tensor:
    return model.states(src, tgt_in) if isinstance(model, Transformer) else model.states(tgt_in)


def batch_loss(model: Model, batch: Batch, label_smoothing: float, r_drop: float = 0.0) -> Tensor:
    """The loss to be minimised, summed over the batch's target tokens."""
    return batch_losses(model, batch, label_smoothing, r_drop).minimised


def average_into(model: Model, checkpoints: Sequence[Path]) -> None:
    """Sets the model's parameters to the mean of those checkpoints: of their moving averages, where they have them."""
    mean = mean_of([read_weights(path) for path in checkpoints])
    set_parameters(model, mean, "the average")


def _tokens(batches: list[Batch]) -> int:
    """Target tokens without padding."""
    return sum(batch.num_tokens for batch in batches)


def _sides(batches: list[Batch]) -> tuple[list[Tensor], list[Tensor]]:
    return [batch.src for batch in batches], [batch.tgt_out for batch in batches]


def _seed_of(seed: int, step: int) -> int:
    """A seed for each step, unlike those of other steps and runs."""
    digest = hashlib.blake2b(f"{seed}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
