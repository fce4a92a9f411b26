"""The masks of a whole sequence, and their check: bool, True = may attend, broadcastable to (B, H, L, M).

The mask of a search's steps is made in cache.py.
"""

import warnings

import torch
from torch import Tensor

from pellucid.errors import DataError


def padding_mask(ids: Tensor, pad_id: int | None) -> Tensor | None:
    """Lets words through and no padding: ids (B, S) -> (B, 1, 1, S); None where every id is a word (`pad_id` None)."""
    return None if pad_id is None else (ids != pad_id)[:, None, None, :]  # (B, 1, 1, S)


def causal_mask(length: int, device: torch.device | str | None = None) -> Tensor:
    """Lets each position see itself and what came before: (1, 1, T, T)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]  # (1, 1, T, T)


def fits(mask: Tensor, B: int, H: int, L: int, M: int) -> bool:
    """Tells if a mask is bool and of four dimensions, as those that models make, and broadcasts to (B, H, L, M)."""
    if mask.dim() != 4 or mask.dtype != torch.bool:
        return False
    b, h, rows, columns = mask.shape
    return columns in (1, M) and rows in (1, L) and h in (1, H) and b in (1, B)


def check_mask(mask: Tensor, B: int, H: int, L: int, M: int) -> None:
    """Raises DataError for a mask that is not bool, or has a shape that attention of (B, H, L, M) cannot take.

    Warns of a mask (B, M) that passes for one (L, M), since B is L, and of one (B, L, M) that passes for (H, L, M).
    """
    if mask.dtype != torch.bool:
        raise DataError(
            f"a mask has dtype {str(mask.dtype).removeprefix('torch.')}; it must be bool, True = may attend",
            "of 1 and 0, as torch.tril gives them: mask.bool(); of 0 and -inf, to be added to scores: mask == 0",
        )
    shape, sizes = tuple(mask.shape), (B, H, L, M)
    for_each_sentence = {(B, M): "mask[:, None, None, :]", (B, L, M): "mask[:, None]", (B, 1, M): "mask[:, None]"}
    # Missing dimensions stand in front.
    if len(shape) > 4 or any(n not in (1, size) for n, size in zip(shape[::-1], sizes[::-1], strict=False)):
        raise DataError(
            f"a mask has shape {shape}; it must be broadcastable to (B, H, L, M), here {sizes}, so one of two "
            f"dimensions is (L, M)",
            f"of one for each sentence write {for_each_sentence[shape]}; padding_mask(ids, pad_id) has that shape"
            if shape in for_each_sentence
            else "padding_mask(ids, pad_id) and causal_mask(length) make the usual ones",
        )
    if B > 1 and shape in for_each_sentence and not _is_causal(mask):
        warnings.warn(
            f"a mask of shape {shape} is read as {'(L, M)' if len(shape) == 2 else '(H, L, M)'}, the same for all {B} "
            f"sentences; if it is one for each sentence, write {for_each_sentence[shape]}, else "
            f"{'mask[None, None]' if len(shape) == 2 else 'mask[None]'}",
            stacklevel=3,
        )


def _is_causal(mask: Tensor) -> bool:
    return mask.dim() == 2 and mask.size(0) == mask.size(1) and bool((mask == torch.ones_like(mask).tril()).all())
