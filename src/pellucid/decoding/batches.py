"""Sequences of different lengths in batches: which go together, and as one tensor."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # another engine has batches, too, and neither tensors nor arrays
    from torch import Tensor

Shape = tuple[int, ...]
"""The lengths of what a text brings, less one token each: its source, and its target where it is given."""


def batches_by_length(shapes: Sequence[Shape], budget: int, padded: bool) -> Iterator[list[int]]:
    """Yields the places of texts that go together, at most `budget` tokens with their padding, the longest first.

    Memory is used to the full at once then, so what fits first fits to the end. A model that takes every id for a word
    cannot be given padding: without `padded`, batches hold one shape each.
    """
    batch: list[int] = []
    for place in sorted(range(len(shapes)), key=lambda i: (-max(shapes[i]), shapes[i], i)):
        if batch:
            full = (max(shapes[batch[0]]) + 1) * (len(batch) + 1) > budget
            if full or not (padded or shapes[place] == shapes[batch[0]]):
                yield batch
                batch = []
        batch.append(place)
    if batch:
        yield batch


def pad(rows: Sequence[Sequence[int]], pad_id: int) -> "Tensor":
    """Returns rows of ids as one tensor (B, L) of int64, filled up on the right."""
    import numpy as np
    import torch

    table = np.full((len(rows), max(map(len, rows))), pad_id, dtype=np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(table)
