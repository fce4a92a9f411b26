"""The masks of a whole sequence: bool, True = may attend, broadcastable to (B, H, L, M).

The mask of a search's steps is made in cache.py, and the masks that are given are checked in checks.py.
"""

import torch
from torch import Tensor

from pellucid.model.fast.queue import has_queue


def padding_mask(ids: Tensor, pad_id: int | None) -> Tensor | None:
    """Lets words through and no padding: ids (B, S) -> (B, 1, 1, S); None where every id is a word (`pad_id` None)."""
    return None if pad_id is None else (ids != pad_id)[:, None, None, :]  # (B, 1, 1, S)


def causal_mask(length: int, device: torch.device | str | None = None) -> Tensor:
    """Lets each position see itself and what came before: (1, 1, T, T)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]  # (1, 1, T, T)


def own_causal_mask(length: int, device: torch.device) -> Tensor:
    """Returns the causal mask that a model makes for itself, (1, 1, T, T), and that nobody changes.

    On a GPU it is marked, so that attention can tell it without a look: the kernel that needs no mask is the fast one.
    """
    mask = causal_mask(length, device)  # (1, 1, T, T)
    if has_queue(device) and not torch.compiler.is_compiling():
        mask._is_own_causal = True  # type: ignore[attr-defined]
    return mask


def is_own_causal(mask: Tensor | None, length: int, keys: int) -> bool:
    """Tells whether a mask is one that `own_causal_mask` has marked, of so many queries and keys."""
    return mask is not None and getattr(mask, "_is_own_causal", False) and length == keys == mask.size(-1)
