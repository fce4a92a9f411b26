"""A linear layer that can use a subset of its rows, and compute in half precision in training."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pellucid.model.fast.products import linear, matmul_nt, matmul_tn, uses_onednn

BLOCK = 128  # rows


class Linear(nn.Linear):
    """x W^T + b, as nn.Linear.

    `compute_dtype` is set only for training (training/precision.py): then the products, forward and backward, are
    computed in that dtype in training mode. Weights, bias, inputs and outputs keep theirs; in evaluation nothing
    differs. On a GPU `torch.autocast` does this.
    """

    compute_dtype: torch.dtype | None = None

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return self._product(x, self.weight, self.bias)

    if TYPE_CHECKING:  # nn.Module's __call__ is untyped

        def __call__(self, x: Tensor) -> Tensor: ...

    def some_rows(self, x: Tensor, rows: slice) -> Tensor:
        """Multiplies `x` with a slice of the weight's rows: for a matrix that packs several projections."""
        return self._product(x, self.weight[rows], None if self.bias is None else self.bias[rows])

    def _product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        dtype = self.product_dtype
        if dtype is not None and x.is_cpu:
            rounded: Tensor = _RoundedProduct.apply(x, weight, dtype)  # type: ignore[no-untyped-call]
            return rounded if bias is None else rounded + bias
        if self.training and torch.is_grad_enabled() and uses_onednn(x, weight):
            output: Tensor = _Product.apply(x, weight, bias)  # type: ignore[no-untyped-call]
            return output
        return linear(x, weight, bias)

    @property
    def product_dtype(self) -> torch.dtype | None:
        """The current dtype of the products; None: the weights'."""
        return self.compute_dtype if self.training else None


def cast_and_pad_rows(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the rows of a matrix as `dtype`, padded with zero rows to a multiple of BLOCK.

    oneDNN compiles a product in half precision for each new shape, which takes as long as a product itself
    (benchmarks/precision.py), and caches a thousand: so few shapes must occur. Zeros change no gradient.
    """
    filled = rows.new_empty(-(-rows.size(0) // BLOCK) * BLOCK, rows.size(1), dtype=dtype)
    filled[: rows.size(0)] = rows
    filled[rows.size(0) :] = 0
    return filled


class _Product(torch.autograd.Function):
    """x W^T + b by the faster library, and its gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        rows, gradient = x.reshape(-1, x.size(-1)), upstream.reshape(-1, upstream.size(-1))
        wanted = ctx.needs_input_grad
        if torch.is_grad_enabled():  # for second derivatives, which these operators have
            x_grad, weight_grad = gradient @ weight, gradient.t() @ rows
        else:
            x_grad = matmul_nt(gradient, weight.t()) if wanted[0] else gradient
            weight_grad = matmul_tn(gradient, rows) if wanted[1] else weight
        bias_grad = gradient.sum(dim=0) if wanted[2] else None
        return x_grad.view(x.shape) if wanted[0] else None, weight_grad if wanted[1] else None, bias_grad


class _RoundedProduct(torch.autograd.Function):
    """x W^T with both factors rounded to another type; its gradients likewise.

    On a CPU `torch.autocast` would also pass the rounded numbers to all later operations, where they are slower than
    single precision (benchmarks/precision.py).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        rows, rounded = cast_and_pad_rows(x.reshape(-1, x.size(-1)), dtype), weight.to(dtype)
        ctx.save_for_backward(rows, rounded)
        output = (rows @ rounded.t())[: x.numel() // x.size(-1)]
        return output.to(x.dtype).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        rows, weight = ctx.saved_tensors
        gradient = cast_and_pad_rows(upstream.reshape(-1, upstream.size(-1)), rows.dtype)
        x_grad = (gradient @ weight)[: upstream.numel() // upstream.size(-1)]
        weight_grad = (gradient.t() @ rows).to(upstream.dtype)
        return x_grad.to(upstream.dtype).view(*upstream.shape[:-1], -1), weight_grad, None
