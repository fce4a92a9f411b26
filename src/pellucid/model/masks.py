"""The masks of a whole sequence: bool, True = may attend, broadcastable to (B, H, L, M).

The mask of a search's steps is made in cache.py; masks passed by the caller are checked in checks.py.
"""

import torch
from torch import Tensor

from pellucid.model.fast.gpu import is_gpu


def padding_mask(ids: Tensor, pad_id: int | None) -> Tensor | None:
    """Masks padding: ids (B, S) -> (B, 1, 1, S); None if there is no padding (`pad_id` None)."""
    return None if pad_id is None else (ids != pad_id)[:, None, None, :]  # (B, 1, 1, S)


def causal_mask(length: int, device: torch.device | str | None = None) -> Tensor:
    """Allows each position to attend to itself and earlier positions: (1, 1, T, T)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]  # (1, 1, T, T)


def make_marked_causal_mask(length: int, device: torch.device) -> Tensor:
    """Returns the same mask as `causal_mask`, (1, 1, T, T), marked as causal on a GPU; it must not be changed in place.

    By the mark, attention() selects the kernel's causal mode, which reads no mask and is faster. Comparing the values
    of a mask would synchronize with the GPU.
    """
    mask = causal_mask(length, device)  # (1, 1, T, T)
    if is_gpu(device) and not torch.compiler.is_compiling():
        mask._is_marked_causal = True  # type: ignore[attr-defined]
    return mask


def is_marked_causal(mask: Tensor | None, length: int, keys: int) -> bool:
    """Returns True if a mask is marked as causal, for this number of queries and keys."""
    return mask is not None and getattr(mask, "_is_marked_causal", False) and length == keys == mask.size(-1)
