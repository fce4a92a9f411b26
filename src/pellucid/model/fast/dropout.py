"""Section 5.4: dropout, with random numbers that cost little on a CPU.

There PyTorch generates one random number per element, which takes a fifth of a training step. Here one 64-bit number
decides four elements, by 16 bits each; a GPU uses PyTorch's kernel.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.errors import ConfigError

_LEVELS = 1 << 16


class Dropout(nn.Module):
    """Zeroes each element with probability `p` in training and scales the others, so that the mean is unchanged.

    Raises ConfigError for a `p` below 0, or of 1 and above.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        _check(p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        """Names the probability in print(model)."""
        return f"p={self.p}"


def dropout(x: Tensor, p: float) -> Tensor:
    """Zeroes each element with probability `p` (to 1/65536 on a CPU), and scales the others by 1 / (1 - p).

    It applies dropout in every call; the module does so only in training mode.

    Raises ConfigError for a `p` below 0, or of 1 and above.
    """
    _check(p)
    if p == 0.0:
        return x
    if not x.is_cpu:
        return F.dropout(x, p)
    return _CheapDropout.apply(x, p)  # type: ignore[no-untyped-call]


def _check(p: float) -> None:
    if not 0 <= p < 1:
        raise ConfigError(f"a dropout of {p} is not a probability: it must be at least 0 and below 1")


class _CheapDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        threshold = min(round(p * _LEVELS), _LEVELS - 1)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        ctx.save_for_backward(bits)
        ctx.least = threshold - _LEVELS // 2  # 16 bits with a sign: from -32768 on
        ctx.scale = _LEVELS / (_LEVELS - threshold)
        return _keep(x, bits, ctx.least, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (bits,) = ctx.saved_tensors
        return _keep(grads[0], bits, ctx.least, ctx.scale), None


def _keep(x: Tensor, bits: Tensor, least: int, scale: float) -> Tensor:
    """Returns the elements of x whose bits are at least `least`, times `scale`, and zeros for the others."""
    # Ones and zeros in the dtype of x: a product with bools takes twice the time of comparing again.
    kept = torch.ge(bits, least, out=torch.empty_like(x))
    return kept.mul_(x).mul_(scale)
