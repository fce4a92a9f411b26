"""What to do when a batch does not fit into memory: the same step with the batch in parts."""

import torch

from pellucid.data.batching import Batch

SIGNS = ("out of memory", "can't allocate memory", "bad_alloc", "ALLOC_FAILED")
"""What an allocator's message has in it where the exception has no type of its own: CPU, MPS, cuBLAS."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it was memory that failed."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def in_parts(batch: Batch, parts: int, pad_id: int | None) -> list[Batch]:
    """The batch cut into so many parts of about as many sentences, less padding; fewer where it has fewer sentences."""
    size = -(-len(batch.src) // parts)
    if size >= len(batch.src):
        return [batch]
    return [_rows(batch, slice(start, start + size), pad_id) for start in range(0, len(batch.src), size)]


def _rows(batch: Batch, rows: slice, pad_id: int | None) -> Batch:
    src, tgt_in, tgt_out = batch.src[rows], batch.tgt_in[rows], batch.tgt_out[rows]
    if pad_id is None:  # nothing tells padding from words
        return Batch(src, tgt_in, tgt_out, batch.sentences[rows], tgt_out.numel())
    source, target = (int((ids != pad_id).sum(dim=1).max()) for ids in (src, tgt_out))
    tokens = int((tgt_out != pad_id).sum())
    return Batch(src[:, :source], tgt_in[:, :target], tgt_out[:, :target], batch.sentences[rows], tokens)
