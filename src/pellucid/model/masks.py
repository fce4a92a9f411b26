"""The masks of a whole sequence: bool, True = may attend, broadcastable to (B, H, L, M).

The mask of a search's steps is made in cache.py, and the masks that are given are checked in checks.py.
"""

import torch
from torch import Tensor


def padding_mask(ids: Tensor, pad_id: int | None) -> Tensor | None:
    """Lets words through and no padding: ids (B, S) -> (B, 1, 1, S); None where every id is a word (`pad_id` None)."""
    return None if pad_id is None else (ids != pad_id)[:, None, None, :]  # (B, 1, 1, S)


def causal_mask(length: int, device: torch.device | str | None = None) -> Tensor:
    """Lets each position see itself and what came before: (1, 1, T, T)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]  # (1, 1, T, T)
