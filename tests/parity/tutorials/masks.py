"""Masks as the tutorials mean them; True = may attend."""

import torch
from torch import Tensor


def padding(ids: Tensor, pad: int) -> Tensor:
    """(B, 1, 1, L)."""
    return (ids != pad)[:, None, None, :]


def causal(length: int) -> Tensor:
    """(T, T)."""
    return torch.ones(length, length).tril().bool()


def padded_and_causal(ids: Tensor, pad: int) -> Tensor:
    """(B, 1, T, T)."""
    return padding(ids, pad) & causal(ids.size(1))
