"""What to do when a batch does not fit into memory: the same step with the batch in parts."""

from dataclasses import replace

import torch
from torch import Tensor

from pellucid.data.batching import Batch

SIGNS = ("out of memory", "can't allocate memory", "bad_alloc", "ALLOC_FAILED")
"""What an allocator's message has in it where the exception has no type of its own: CPU, MPS, cuBLAS."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it was memory that failed."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def in_parts(batch: Batch, parts: int) -> list[Batch]:
    """The batch cut into so many parts of about as many sentences, less padding; fewer where it has fewer sentences."""
    size = -(-len(batch.src) // parts)
    if size >= len(batch.src):
        return [batch]
    return [_rows(batch, slice(start, start + size)) for start in range(0, len(batch.src), size)]


def _rows(batch: Batch, rows: slice) -> Batch:
    src, tgt_out = _cropped(batch.src[rows], batch.src_pad_id), _cropped(batch.tgt_out[rows], batch.tgt_pad_id)
    tokens = tgt_out.numel() if batch.tgt_pad_id is None else int((tgt_out != batch.tgt_pad_id).sum())
    tgt_in = batch.tgt_in[rows, : tgt_out.size(1)]
    return replace(batch, src=src, tgt_in=tgt_in, tgt_out=tgt_out, sentences=batch.sentences[rows], num_tokens=tokens)


def _cropped(ids: Tensor, pad_id: int | None) -> Tensor:
    """Rows (B, L) without the columns that only fill up; where nothing tells padding from words, as they are."""
    return ids if pad_id is None else ids[:, : int((ids != pad_id).sum(dim=1).max())]
