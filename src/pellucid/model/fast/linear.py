"""A linear layer that can use some of its rows alone, and whose product training may take in half precision."""

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

BLOCK = 128  # rows


class Linear(nn.Linear):
    """x W^T + b, as nn.Linear has it.

    `compute_dtype` is set by training alone (training/precision.py): then the products, forward and backward, are taken
    in that type while the module trains. Weights, bias, inputs and outputs keep theirs; in evaluation nothing differs.
    On a GPU it is `torch.autocast` that does this.
    """

    compute_dtype: torch.dtype | None = None

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return _linear(x, self.weight, self.bias, self.product_dtype)

    if TYPE_CHECKING:  # nn.Module says nothing of what a call takes and gives

        def __call__(self, x: Tensor) -> Tensor: ...

    def some_rows(self, x: Tensor, rows: slice) -> Tensor:
        """Takes `x` through some rows of the weight: for a matrix that packs several projections."""
        return _linear(x, self.weight[rows], None if self.bias is None else self.bias[rows], self.product_dtype)

    @property
    def product_dtype(self) -> torch.dtype | None:
        """The type of the products now; None: that of the weights."""
        return self.compute_dtype if self.training else None


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype | None) -> Tensor:
    if dtype is None or not x.is_cpu:
        return F.linear(x, weight, bias)
    output: Tensor = _Product.apply(x, weight, dtype)  # type: ignore[no-untyped-call]
    return output if bias is None else output + bias


def in_blocks(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the rows of a matrix as `dtype`, with rows of zeros up to the next multiple of BLOCK.

    oneDNN compiles a product in half precision for each shape that it meets, which takes as long as a product itself
    (benchmarks/precision.py), and keeps a thousand: so few shapes must occur. Zeros change no gradient.
    """
    filled = rows.new_empty(-(-rows.size(0) // BLOCK) * BLOCK, rows.size(1), dtype=dtype)
    filled[: rows.size(0)] = rows
    filled[rows.size(0) :] = 0
    return filled


class _Product(torch.autograd.Function):
    """x W^T with both factors rounded to another type; its gradients likewise.

    On a CPU `torch.autocast` would also hand the rounded numbers on to all that follows, where they are slower than
    single precision (benchmarks/precision.py).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        rows, rounded = in_blocks(x.reshape(-1, x.size(-1)), dtype), weight.to(dtype)
        ctx.save_for_backward(rows, rounded)
        output = (rows @ rounded.t())[: x.numel() // x.size(-1)]
        return output.to(x.dtype).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        rows, weight = ctx.saved_tensors
        gradient = in_blocks(upstream.reshape(-1, upstream.size(-1)), rows.dtype)
        x_grad = (gradient @ weight)[: upstream.numel() // upstream.size(-1)]
        weight_grad = (gradient.t() @ rows).to(upstream.dtype)
        return x_grad.to(upstream.dtype).view(*upstream.shape[:-1], -1), weight_grad, None
