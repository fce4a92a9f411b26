"""How far apart two computations of the same numbers may lie: what tolerances in tests follow from.

A processor sums in an order of its own, with fused multiply-adds or without, and by an exponential function of its own.
So a tolerance that was found on one machine fails on the next. What holds on all of them follows from u, half the
distance between 1 and the next number: a sum of n products, in any order, errs by at most n u / (1 - n u) times the sum
of their absolute values (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1).

`of_weights` and `of_attention` are such bounds, of the worst case, for one operation whose inputs are the same in both
computations. Through the layers of a network errors grow by factors that only its weights tell: there a test leaves
half of the digits to rounding (`NETWORK`), and where nothing speaks for single precision it computes in double.
"""

import torch
from torch import Tensor

NETWORK = torch.finfo(torch.float32).eps ** 0.5  # 3.5e-4
"""Half of the digits of single precision: what two passes of a small network may differ by, in numbers of about 1."""

DOUBLE_NETWORK = torch.finfo(torch.float64).eps ** 0.5  # 1.5e-8
"""The same of double precision."""

EXPONENTIAL = 4
"""By how many u exp() may be off: libraries promise one or two."""


def unit(dtype: torch.dtype = torch.float32) -> float:
    """u: the largest relative error of rounding a number."""
    return torch.finfo(dtype).eps / 2


def gamma(n: int, dtype: torch.dtype = torch.float32) -> float:
    """The largest relative error of a sum of n products, all of one sign."""
    return n * unit(dtype) / (1 - n * unit(dtype))


def of_weights(q: Tensor, k: Tensor, bias: Tensor | None = None) -> float:
    """Between two computations of the weights softmax(q k^T / sqrt(K) + bias) of (H, L, K) and (H, M, K).

    A score errs by its sum, by its scale and by the bias; a weight, which is at most 1, by its score, by the largest
    score, which is subtracted, by exp() and by the sum that divides it.
    """
    u, (width, length) = unit(q.dtype), (q.size(-1), k.size(-2))
    scores = (q.abs() * width**-0.5) @ k.abs().transpose(-2, -1)  # at least the absolute value of each
    largest = float((scores if bias is None else scores + bias.abs()).max())
    error_of_score = (gamma(width + 2, q.dtype) + 2 * u) * largest
    return 2 * (2 * error_of_score + 2 * u * largest + (EXPONENTIAL + 2) * u + gamma(length, q.dtype))


def of_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> float:
    """Between two computations of softmax(q k^T / sqrt(K) + bias) v."""
    return (of_weights(q, k, bias) + 2 * gamma(k.size(-2), q.dtype)) * float(v.abs().max())
