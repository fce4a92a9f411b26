"""Handles the two failures of a step: its batch does not fit into memory, or its loss is not finite."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from pellucid.data.batching import Batch
from pellucid.errors import PellucidError

SIGNS = ("out of memory", "can't allocate memory", "bad_alloc", "ALLOC_FAILED")
"""Texts in the messages of allocators without a specific exception type: CPU, MPS, cuBLAS."""
SHOWN = 3  # sentences of the step that are shown if no single one is the cause
MOST_CHARACTERS = 300  # of a sentence's text
LOWER_RATE = (
    "start over with `fresh=True` and a lower `train.learning_rate`, a longer `train.warmup_steps`, or "
    "`train.grad_clip`"
)


def is_out_of_memory(error: BaseException) -> bool:
    """Returns True if an error means that memory was insufficient."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def split_batch(batch: Batch, parts: int) -> list[Batch]:
    """Splits a batch into `parts` of about equally many sentences, without excess padding; at most one per sentence."""
    size = -(-len(batch.src) // parts)
    if size >= len(batch.src):
        return [batch]
    return [_rows(batch, slice(start, start + size)) for start in range(0, len(batch.src), size)]


def _rows(batch: Batch, rows: slice) -> Batch:
    src, tgt_out = _crop(batch.src[rows], batch.src_pad_id), _crop(batch.tgt_out[rows], batch.tgt_pad_id)
    tokens = tgt_out.numel() if batch.tgt_pad_id is None else int((tgt_out != batch.tgt_pad_id).sum())
    tgt_in = batch.tgt_in[rows, : tgt_out.size(1)]
    return replace(
        batch,
        src=src,
        tgt_in=tgt_in,
        tgt_out=tgt_out,
        sentences=batch.sentences[rows],
        num_tokens=tokens,
        target_positions=None,
    )


def _crop(ids: Tensor, pad_id: int | None) -> Tensor:
    """Removes the columns of (B, L) that are only padding; none if `pad_id` is None."""
    return ids if pad_id is None else ids[:, : int((ids != pad_id).sum(dim=1).max())]


def make_too_long_error(batches: Sequence[Batch], step: int) -> PellucidError:
    """Returns the error for a single sentence that does not fit into memory."""
    source, target = (
        max(ids.size(1) for ids in side) for side in zip(*((b.src, b.tgt_out) for b in batches), strict=True)
    )
    return PellucidError(
        f"out of memory at step {step:,} with one sentence at a time, the longest of {source:,} source and "
        f"{target:,} target tokens",
        "start over with `fresh=True` and a lower `data.max_length` or a smaller model, or use another device",
    )


@dataclass(frozen=True)
class Cause:
    """The cause of a non-finite number: the weights, one sentence of a step, or its batches."""

    text: str
    is_found: bool

    @classmethod
    def find(
        cls,
        model: nn.Module,
        batches: Sequence[Batch],
        is_finite: Callable[[Batch], bool],
        text_of: Callable[[int], str],
    ) -> Self:
        """Searches for the cause in the weights, then in the batches of a step.

        Args:
            is_finite: computes loss and gradient of some sentences again.
            text_of: returns a pair's text, by its index.
        """
        broken = list_non_finite_parameters(model)
        if broken:
            return cls(f"{len(broken)} parameters are not finite already (first: `{broken[0]}`)", True)
        for batch in batches:
            found = None if is_finite(batch) else _find_by_halving(batch, is_finite)
            if found is not None:
                return cls(f"it comes from {_pair(found, text_of)}", True)
        first = [int(index) for batch in batches for index in batch.sentences[:SHOWN]][:SHOWN]
        pairs = "; ".join(_pair(n, text_of) for n in first)
        return cls(f"no pair causes it alone; the pairs of the step begin with {pairs}", False)


def make_non_finite_error(causes: Sequence[Cause], where: str) -> PellucidError:
    """Returns the error for a step whose loss or gradient is not finite.

    Args:
        causes: the cause that each rank has found in its batches.
        where: the step, with its numbers.
    """
    rank = next((rank for rank, cause in enumerate(causes) if cause.is_found), 0)
    on = f", on rank {rank} of {len(causes)}" if len(causes) > 1 else ""
    return PellucidError(
        f"the loss is not finite at {where}; the weights were not changed; {causes[rank].text}{on}", LOWER_RATE
    )


def make_divergence_error(model: nn.Module, loss: float, step: int, rate: float, init_from: str) -> PellucidError:
    """Returns the error for a validation whose loss is not finite.

    Args:
        step: the last step before the validation; 0: the weights are the ones of `init_from`.
    """
    if not step:
        return PellucidError(
            f"the weights of `{init_from}`, from which the run starts, have a loss of {loss}",
            "copy that model again, or use another initial model",
        )
    broken = list_non_finite_parameters(model)
    what = f"{len(broken)} parameters are not finite (first: `{broken[0]}`)" if broken else "the weights are too large"
    return PellucidError(
        f"the loss is not finite in the validation after step {step:,} (loss {loss:.4g}, learning rate {rate:.3g}); "
        + what,
        LOWER_RATE,
    )


def list_non_finite_parameters(model: nn.Module) -> list[str]:
    """Returns the names of the parameters with a non-finite value."""
    return [name for name, p in model.named_parameters() if not torch.isfinite(p).all()]


def _find_by_halving(batch: Batch, is_finite: Callable[[Batch], bool]) -> int | None:
    """Returns the first sentence that is not finite alone, by bisection: about ten passes."""
    while len(batch.src) > 1:
        first, second = split_batch(batch, 2)
        batch = second if is_finite(first) else first
    return None if is_finite(batch) else int(batch.sentences[0])


def _pair(index: int, text_of: Callable[[int], str]) -> str:
    text = text_of(index)
    text = text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
    return f"training pair {index + 1:,}{text and f' ({text})'}"
