"""The gradient of a step: accumulated over batches, in parts that fit into memory, and summed over all ranks."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pellucid.data.batching import Batch
from pellucid.model.families import Model
from pellucid.model.fast.gpu import is_gpu
from pellucid.process import get_peak_memory
from pellucid.training.failures import is_out_of_memory, make_too_long_error, split_batch
from pellucid.training.loss import Loss, check_losses
from pellucid.training.optimizer import named_parameters
from pellucid.training.precision import autocast
from pellucid.training.ranks import DistributedContext
from pellucid.training.sharding import Replicas
from pellucid.training.state import RunState


@dataclass
class RankTimings:
    """Sums the work of this rank since the last report, with several ranks."""

    NAMES: ClassVar = ("tokens_per_second", "computing", "waiting", "adding", "memory")
    """Target tokens per second of computing; seconds of computing, of waiting for slower ranks, and of summing
    gradients; the peak memory so far, in megabytes: of the GPU, else of the process."""
    tokens: int = 0
    computing: float = 0.0
    waiting: float = 0.0
    adding: float = 0.0

    def add(self, tokens: int, computing: float, waiting: float, adding: float) -> None:
        """Adds a step."""
        self.tokens += tokens
        self.computing += computing
        self.waiting += waiting
        self.adding += adding

    def numbers(self, device: torch.device) -> list[float]:
        """Returns the numbers of NAMES."""
        times = (round(each, 2) for each in (self.computing, self.waiting, self.adding))
        gpu = device.type == "cuda"
        memory = torch.cuda.max_memory_allocated(device) if gpu else get_peak_memory()
        return [round(self.tokens / max(1e-9, self.computing)), *times, memory >> 20]


class Gradients:
    """Computes the gradient of the mean loss per target token, over the batches of all ranks.

    Args:
        seed: the run's seed, from which dropout follows.
        state: `state.parts` is the number of parts that each batch is split into.
        on_out_of_memory: called with a description of where memory ran out, after `state.parts` has doubled and before
            the gradient is computed again.
    """

    def __init__(
        self,
        model: Model,
        loss: Loss,
        seed: int,
        state: RunState,
        ranks: DistributedContext,
        replicas: Replicas,
        on_out_of_memory: Callable[[str], None],
    ) -> None:
        self.parameters: dict[str, nn.Parameter] = named_parameters(model, loss)
        self._model, self._loss, self._seed, self._state = model, loss, seed, state
        self._ranks, self._replicas = ranks, replicas
        self._on_out_of_memory = on_out_of_memory
        self._device: torch.device = next(model.parameters()).device
        self._own = RankTimings()

    def compute(self, batches: list[Batch], step: int) -> tuple[Tensor, int]:
        """Sets the parameters' gradients; returns the summed loss to report, (), and the number of tokens.

        Both are sums over all ranks. If a rank runs out of memory, all ranks split batches further.

        Raises PellucidError if a single sentence does not fit into memory.
        """
        while True:
            loss: Tensor | None = None
            started = time.perf_counter()
            try:
                loss = self.backward(batches, step, per=_tokens(batches) if self._ranks.world_size == 1 else 1)
            except (RuntimeError, MemoryError) as error:
                # With sharding the other ranks are within the step and cannot restart it.
                if self._replicas.is_sharded or not is_out_of_memory(error):
                    raise
            # Outside of the except clause, where the memory of the failed pass is free.
            computed = time.perf_counter()
            lacking = [p for p in self.parameters.values() if p.grad is None]
            own = [_tokens(batches), loss is None, len(lacking), max(len(b.src) for b in batches)]
            tokens, failed, lacks, most = zip(*self._ranks.all_gather(own), strict=True)
            if loss is None or any(failed):
                self._halve_parts(batches, step, int(max(most)), failed)
                continue
            if self._ranks.world_size > 1:
                waited = time.perf_counter()
                loss = self._sum_over_ranks(loss, sum(tokens), any(lacks))
                ended = time.perf_counter()
                self._own.add(int(tokens[self._ranks.rank]), computed - started, waited - computed, ended - waited)
            return loss, int(sum(tokens))

    def backward(self, batches: list[Batch], step: int, per: int) -> Tensor:
        """Sets the gradients of this rank's summed loss divided by `per`; returns the summed loss to report, ()."""
        model = self._model
        model.train()
        for parameter in self.parameters.values():
            parameter.grad = None
        loss = torch.zeros((), device=self._device)
        for number, batch in enumerate(batches):
            # Dropout is a function of (seed, step, index), so that it needs no saving, and ranks can share a step.
            torch.manual_seed(_make_seed(self._seed, step, self._ranks.place(number)))
            for part in split_batch(batch, self._state.parts):
                if is_gpu(self._device):
                    part = part.pad_for_gpu(model.config.max_positions)
                part = part.to(self._device)
                with autocast(model):
                    losses = check_losses(self._replicas.losses(part), self._loss)
                (losses.minimised / per).backward()  # type: ignore[no-untyped-call]
                loss += losses.reported.detach()
        return loss

    def are_finite(self, batch: Batch, step: int) -> bool:
        """Returns True if loss and gradient of a batch, computed again, are finite; with sharding only the loss."""
        if self._replicas.is_sharded:  # a gradient needs all ranks
            torch.manual_seed(_make_seed(self._seed, step, self._ranks.rank))
            with torch.no_grad(), autocast(self._model):
                losses = self._loss(self._model, batch.to(self._device))
            return bool(losses.minimised.isfinite())
        loss = self.backward([batch], step, per=_tokens([batch]))
        gradients = (p.grad for p in self.parameters.values() if p.grad is not None)
        return bool(loss.isfinite()) and all(bool(torch.isfinite(g).all()) for g in gradients)

    def report_ranks(self) -> dict[str, Any]:
        """Returns the numbers of each rank since the last report, one list per name; empty for a single rank."""
        if self._ranks.world_size == 1:
            return {}
        own, self._own = self._own, RankTimings()
        by_rank = zip(*self._ranks.all_gather(own.numbers(self._device)), strict=True)
        return {f"ranks_{name}": list(each) for name, each in zip(RankTimings.NAMES, by_rank, strict=True)}

    def _sum_over_ranks(self, loss: Tensor, tokens: float, lacking: bool) -> Tensor:
        """Replaces this rank's summed gradients by the mean over all ranks' tokens; returns the summed loss of all, ().

        Args:
            lacking: a rank has parameters without a gradient. A parameter without one on all ranks is skipped.
        """
        parameters = [p for p in self.parameters.values() if p.requires_grad]
        if lacking:
            have = self._ranks.all_gather([float(p.grad is not None) for p in parameters])
            parameters = [p for p, flags in zip(parameters, zip(*have, strict=True), strict=True) if any(flags)]
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in parameters if p.grad is not None]
        loss = loss[None]
        self._ranks.all_reduce_sum([loss] if self._replicas.is_sharded else [*gradients, loss])
        torch._foreach_div_(gradients, tokens)
        return loss[0]

    def _halve_parts(self, batches: list[Batch], step: int, most: int, failed: Sequence[float]) -> None:
        """Splits the batches of this step and of all later ones into twice as many parts, on all ranks.

        Args:
            most: the number of sentences in the largest batch of all ranks.
            failed: by rank, 1 if it was out of memory.
        """
        if self._state.parts >= most:
            raise self._ranks.gather(make_too_long_error(batches, step))[[bool(each) for each in failed].index(True)]
        self._state.parts *= 2
        ranks = [str(rank) for rank, flag in enumerate(failed) if flag]
        on_ranks = f" on rank{'s' * (len(ranks) > 1)} {' and '.join(ranks)}" if self._ranks.world_size > 1 else ""
        self._on_out_of_memory(f"out of memory at step {step:,}{on_ranks}")


def _tokens(batches: list[Batch]) -> int:
    """Returns the number of target tokens without padding."""
    return sum(batch.num_tokens for batch in batches)


def _make_seed(seed: int, step: int, place: int = 0) -> int:
    """Returns a seed for each batch of a step, different from those of other batches, steps and runs."""
    text = f"{seed}/{step}/{place}" if place else f"{seed}/{step}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
