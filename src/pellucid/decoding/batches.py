"""Batches of sequences of different lengths: groups them, and pads them into one tensor."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # CTranslate2 uses this module without PyTorch
    from torch import Tensor

Shape = tuple[int, ...]
"""The lengths of a text's source and, if given, its target, each minus one token."""


def batches_by_length(shapes: Sequence[Shape], budget: int, padded: bool) -> Iterator[list[int]]:
    """Yields the indices of each batch: at most `budget` tokens with padding, the longest texts first.

    The first batch then needs the most memory, so if it fits, all fit. A model without a padding id cannot read
    padding: without `padded`, each batch holds texts of one shape.
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
    """Returns rows of ids as one tensor (B, L) of int64, padded on the right."""
    import numpy as np
    import torch

    table = np.full((len(rows), max(map(len, rows))), pad_id, dtype=np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(table)
