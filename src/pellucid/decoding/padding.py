"""Sequences of different lengths as one tensor."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def pad(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Rows of ids as one tensor (B, L) of int64, filled up on the right."""
    table = np.full((len(rows), max(map(len, rows))), pad_id, dtype=np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(table)
