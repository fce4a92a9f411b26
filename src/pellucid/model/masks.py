"""The only place where a mask is made: bool, True = may attend, broadcastable to (B, H, L, M)."""

import torch
from torch import Tensor


def padding_mask(ids: Tensor, pad_id: int | None) -> Tensor | None:
    """Keys that are words: ids (B, S) -> (B, 1, 1, S); None where nothing is padded by rule (`pad_id` None)."""
    return None if pad_id is None else (ids != pad_id)[:, None, None, :]  # (B, 1, 1, S)


def causal_mask(length: int, device: torch.device | str | None = None) -> Tensor:
    """Each position sees itself and what came before: (1, 1, T, T)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]  # (1, 1, T, T)
