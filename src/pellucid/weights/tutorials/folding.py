"""Folds the tutorials' arithmetic into Pellucid's weights, exactly or as closely as single precision allows."""

import math

import torch
from torch import Tensor

from pellucid.model.positions import sinusoids

NEGLIGIBLE = 1e-7
"""The part of a variance below which an eps has no effect in single precision."""


def unbiased_deviation(d_model: int) -> float:
    """Returns the ratio of a sample's standard deviation to that of all its numbers."""
    return math.sqrt(d_model / (d_model - 1)) if d_model > 1 else 1.0


def eps_in_the_root(eps: float, d_model: int) -> float:
    """Returns the eps for which sqrt(variance + eps) is nearest to deviation + `eps`, the deviation being a sample's.

    No number fits all deviations s. This one fits at both ends, s = 0 and s large; in between it is off by at most
    `eps`, which is 1e-6: a 1e-6 / s part of the result.
    """
    return (eps / unbiased_deviation(d_model)) ** 2


def one_block_a_head(matrix: Tensor, num_heads: int) -> Tensor:
    """Returns a projection that all heads share, (K, K), as a block-diagonal matrix of all heads: (H * K, H * K)."""
    return torch.kron(torch.eye(num_heads, dtype=matrix.dtype), matrix)


def sinusoids_of_each_column(length: int, d_model: int) -> Tensor:
    """Returns sinusoids where column i has the angle pos / 10000^(i / d_model): sines in even columns, cosines in odd
    ones.

    The paper has one exponent for a sine and its cosine. (length, D), in double precision.
    """
    rate = 10000.0 ** (-torch.arange(d_model, dtype=torch.float64) / d_model)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate
    return torch.where(torch.arange(d_model) % 2 == 0, angle.sin(), angle.cos())


def is_sinusoidal_table(table: Tensor) -> bool:
    """Returns True if a table of positions (L, D) is section 3.5's, as far as single precision can distinguish
    angles.
    """
    if table.size(1) % 2:
        return False
    exact = sinusoids(table.size(0), table.size(1)).double()
    tolerance = 1e-6 + 3e-7 * torch.arange(table.size(0), dtype=torch.float64)
    return bool(((table - exact).abs() <= tolerance[:, None]).all())


def scale_before_norm(tokens: Tensor, positions: Tensor, theirs: float, ours: float) -> float:
    """Returns the factor on a norm's input for which its eps can be `ours` instead of the smaller `theirs`.

    A norm with `ours` of x times s is a norm of x with `ours` / s^2. A power of two keeps every bit, and the smallest
    one without an effect is best: later training moves large weights slowly. If `theirs` has an effect itself, s is
    exact.

    Args:
        tokens: (V, D).
        positions: (L, D); the norm's inputs are their sums.
    """
    parts = [table - table.mean(dim=1, keepdim=True) for table in (tokens, positions)]
    squares = [table.square().mean(dim=1) for table in parts]
    variances = squares[0][:, None] + squares[1] + 2 * parts[0] @ parts[1].t() / tokens.size(1)
    negligible = NEGLIGIBLE * float(variances.min())
    if negligible <= theirs:
        return math.sqrt(ours / theirs)
    return float(2 ** math.ceil(math.log2(math.sqrt(ours / negligible)))) if negligible < ours else 1.0
