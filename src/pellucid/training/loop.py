"""The training loop: section 5 of the paper in the order in which it happens."""

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pellucid.config import TrainConfig
from pellucid.data.batching import Batch, BatchOrder, Indices, make_batch
from pellucid.data.shards import Shard
from pellucid.errors import PellucidError
from pellucid.model.transformer import Transformer
from pellucid.training.interrupts import Interrupted, Interrupts
from pellucid.training.log import RunLog
from pellucid.training.loss import projected_cross_entropy
from pellucid.training.optimizer import make_optimizer
from pellucid.training.schedule import learning_rate
from pellucid.training.state import Checkpoints, Meter, RunState
from pellucid.weights.tensors import load_tensors, mean_of, set_parameters


@dataclass(frozen=True)
class Validation:
    """What validation found: mean loss per token (nats), and BLEU where sentences were translated."""

    loss: float
    bleu: float | None = None
    sample: str = ""

    @property
    def score(self) -> tuple[float, float]:
        """What is to be highest: BLEU, where there is one; of equal ones (as long as it is 0) the negative loss."""
        return self.bleu or 0.0, -self.loss

    def __str__(self) -> str:
        return f"validation loss {self.loss:.3f}" + ("" if self.bleu is None else f", BLEU {self.bleu:.2f} (greedy)")


@dataclass(frozen=True)
class Trainer:
    """A run's parts. `train` is the loop; the rest of the methods are its lines."""

    model: Transformer
    shard: Shard
    config: TrainConfig
    checkpoints: Checkpoints
    log: RunLog
    validate: Callable[[], Validation]
    keep: Callable[[], None]

    def train(self) -> RunState:
        """Trains from the newest checkpoint, or from the start, to the last step; then averages.

        Raises Interrupted, with the state saved, after SIGINT or SIGTERM; PellucidError when the loss is not finite.
        """
        optimizer = make_optimizer(self.model, self.config)
        state = self.checkpoints.restore(self.model, optimizer, self.log.say)
        self.log.resume_at(state.step)
        if state.step:
            self.log.say(f"resuming after step {state.step:,} of {self.config.steps:,}")
        order = BatchOrder(
            self.shard.source.lengths, self.shard.target.lengths, self.config.batch_tokens, self.config.seed
        )
        stream = order.follow(state.epoch, state.position)
        with Interrupts() as interrupts:
            while state.step < self.config.steps:
                started = time.perf_counter()
                batches = [self._next_batch(stream, state) for _ in range(self.config.accumulate)]
                loss, norm = self._step(batches, optimizer, state)
                state.meter.add(loss, sum(batch.num_tokens for batch in batches), time.perf_counter() - started)
                if _due(state.step, self.config.log_every, self.config.steps):
                    self._report(optimizer, norm, state)
                if _due(state.step, self.config.validate_every, self.config.steps):
                    self._validate(state)
                if interrupts.received or _due(state.step, self.config.save_every, self.config.steps):
                    self.checkpoints.save(state, self.model, optimizer)
                if interrupts.received and state.step < self.config.steps:
                    raise Interrupted(interrupts.received)
        self._average(state)
        return state

    def _next_batch(self, stream: Iterator[tuple[int, int, Indices]], state: RunState) -> Batch:
        state.epoch, state.position, sentences = next(stream)
        batch = make_batch(self.shard, sentences, self.model.config)
        return batch.to(next(self.model.parameters()).device)

    def _step(self, batches: list[Batch], optimizer: torch.optim.Optimizer, state: RunState) -> tuple[float, float]:
        """One optimizer step; returns the summed loss and the gradient's norm."""
        state.step += 1
        rate = learning_rate(state.step, self.config, self.model.config.d_model)
        for group in optimizer.param_groups:
            group["lr"] = rate
        # Dropout follows from (seed, step) alone, so nothing of it has to be saved.
        torch.manual_seed(_seed_of(self.config.seed, state.step))
        self.model.train()
        optimizer.zero_grad(set_to_none=True)
        tokens = sum(batch.num_tokens for batch in batches)
        loss = torch.zeros(())
        for batch in batches:
            part = batch_loss(self.model, batch, self.config.label_smoothing)
            (part / tokens).backward()  # type: ignore[no-untyped-call]
            loss += part.detach().cpu()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip or math.inf)
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise PellucidError(
                f"the loss is not finite at step {state.step:,} (loss {loss / tokens:.4g}, gradient norm {norm:.4g}, "
                f"learning rate {rate:.3g}); the weights were not changed",
                "start over with --fresh and a lower `train.learning_rate`, a longer `train.warmup_steps`, or "
                "`train.grad_clip`",
            )
        optimizer.step()
        state.tokens += tokens
        return float(loss), float(norm)

    def _report(self, optimizer: torch.optim.Optimizer, norm: float, state: RunState) -> None:
        meter, state.meter = state.meter, Meter()
        state.seconds += meter.seconds
        rate = optimizer.param_groups[0]["lr"]
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
        self.log.progress(state.step, f"loss {meter.loss:.3f}, {meter.speed:,.0f} tokens/s, rate {rate:.2e}")

    def _validate(self, state: RunState) -> None:
        started = time.perf_counter()
        found = self._validation()
        better = state.best_loss is None or found.score > Validation(state.best_loss, state.best_bleu).score
        if better:
            state.best_step, state.best_loss, state.best_bleu = state.step, found.loss, found.bleu
            self.keep()
        state.seconds += time.perf_counter() - started
        self.log.write("validation", state.step, loss=found.loss, bleu=found.bleu, best=better)
        self.log.say(f"step {state.step:,}: {found}{', the best so far' if better else ''}")
        if found.sample:
            self.log.say(found.sample)

    def _validation(self) -> Validation:
        self.model.eval()
        with torch.inference_mode():
            return self.validate()

    def _average(self, state: RunState) -> None:
        """Puts the mean of the last checkpoints into the model and keeps it."""
        paths = self.checkpoints.to_average()
        if len(paths) < 2:
            return
        average_into(self.model, paths)
        found = self._validation()
        self.keep()
        state.best_step, state.best_loss, state.best_bleu = state.step, found.loss, found.bleu
        self.log.write("average", state.step, checkpoints=len(paths), loss=found.loss, bleu=found.bleu)
        self.log.say(f"mean of the last {len(paths)} checkpoints: {found}")


def batch_loss(model: Transformer, batch: Batch, label_smoothing: float) -> Tensor:
    """The loss summed over the batch's target tokens."""
    states = model.states(batch.src, batch.tgt_in)  # (B, T, D)
    return projected_cross_entropy(states, batch.tgt_out, model.output_projection, label_smoothing, model.config.pad_id)


def average_into(model: Transformer, checkpoints: list[Path]) -> None:
    """Sets the model's parameters to the mean of those checkpoints."""
    mean = mean_of([load_tensors(path / "model.safetensors") for path in checkpoints])
    set_parameters(model, mean, "the average")


def _due(step: int, every: int, last: int) -> bool:
    return step % every == 0 or step == last


def _seed_of(seed: int, step: int) -> int:
    """A seed for each step, unlike those of other steps and runs."""
    digest = hashlib.blake2b(f"{seed}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
