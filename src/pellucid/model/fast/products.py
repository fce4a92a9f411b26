"""Matrix products in single precision on a CPU, by the faster of PyTorch's two libraries.

PyTorch uses MKL, which leaves half of an AMD processor's speed unused: it supports AVX-512 on Intel's alone. oneDNN,
which PyTorch uses in half precision, supports it on both (benchmarks/products.py). It is called through an operator of
PyTorch's compiler, only in this module; if the operator is missing, or not clearly faster, all products are PyTorch's.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

LEAST_ROWS, LEAST_WORK = 3, 1 << 21
"""The least rows and multiplications for which oneDNN is faster: below them the overhead of a call is too high."""
BLOCK = 16
"""The rows that oneDNN computes together."""
WORTHWHILE = 1.4
"""The speedup from which oneDNN is used. It is about 1 if MKL supports the processor, otherwise 2 or more: so the
measurement in each process gives the same decision, and a resumed run computes the same digits."""
SIZE, ROUNDS = 256, 20

_plain = False


@contextmanager
def use_torch_matmul() -> Iterator[None]:
    """Computes all products by PyTorch within the context, to count or to compare them. It applies to all threads."""
    global _plain
    before, _plain = _plain, True
    try:
        yield
    finally:
        _plain = before


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x W^T + b: (..., K), (N, K) -> (..., N). It has no gradient if oneDNN computes the product."""
    if torch.is_grad_enabled() or not uses_onednn(x, weight):
        return F.linear(x, weight, bias)
    return _linear(x.reshape(-1, x.size(-1)), weight, bias).view(*x.shape[:-1], weight.size(0))


def matmul_nt(x: Tensor, weight: Tensor) -> Tensor:
    """Returns x W^T without a gradient: (R, K), (N, K) -> (R, N)."""
    return _linear(x, weight, None) if uses_onednn(x, weight) else x @ weight.t()


def matmul_tn(x: Tensor, y: Tensor) -> Tensor:
    """Returns x^T y without a gradient, a sum over many rows: (R, N), (R, K) -> (N, K)."""
    if x.size(0) < BLOCK or not uses_onednn(x.t(), y.t()):
        return x.t() @ y
    whole = x.size(0) - x.size(0) % _step(x.size(0))
    found = _onednn(x[:whole].t(), y[:whole].t(), None)
    return found if whole == x.size(0) else found.addmm_(x[whole:].t(), y[whole:])


def uses_onednn(x: Tensor, weight: Tensor) -> bool:
    """Returns True if oneDNN is used for a product: (..., K), (N, K)."""
    if torch._C._get_tracing_state() or torch.compiler.is_compiling():
        return False  # tracing and compilation support only PyTorch's operators, and any size
    numbers = x.numel()
    if numbers * weight.size(0) < LEAST_WORK or numbers < LEAST_ROWS * x.size(-1):
        return False
    if x.dtype != torch.float32 or weight.dtype != torch.float32 or not x.is_cpu or _plain:
        return False
    if torch._C._are_functorch_transforms_active():
        return False
    return gain_of_onednn() >= WORTHWHILE


@cache
def gain_of_onednn() -> float:
    """Returns the speedup of oneDNN over MKL on this machine, by the best times of small products."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return 0.0
    x, weight = torch.ones(SIZE, SIZE), torch.ones(SIZE, SIZE)
    sides = (lambda: F.linear(x, weight), lambda: _onednn(x, weight, None))
    best = [float("inf")] * 2
    with torch.inference_mode():
        for _ in range(ROUNDS):
            for number, side in enumerate(sides):
                started = time.perf_counter()
                side()  # type: ignore[no-untyped-call]
                best[number] = min(best[number], time.perf_counter() - started)
    return best[0] / best[1]


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")
    return found


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Returns x W^T + b by oneDNN, (R, K), (N, K) -> (R, N), in few shapes.

    oneDNN compiles a product for each new shape, which takes half a millisecond, and caches a thousand. So only few
    numbers of rows are used: padded with zero rows, or the last few by MKL, whichever copies less.
    """
    rows, step = x.size(0), _step(x.size(0))
    rest = rows % step
    if not rest:
        return _onednn(x, weight, bias)
    if x.size(1) <= weight.size(0):
        filled = x.new_empty(rows - rest + step, x.size(1))
        filled[:rows] = x
        filled[rows:] = 0
        return _onednn(filled, weight, bias)[:rows]
    whole = rows - rest
    return torch.cat([_onednn(x[:whole], weight, bias), F.linear(x[whole:], weight, bias)])


def _step(rows: int) -> int:
    """Returns the divisor that a number of rows is rounded to: an eighth of the power of two below it, at least BLOCK.

    For fewer rows than BLOCK it is 1, as these are few shapes already.
    """
    return max(BLOCK, 1 << max(0, rows.bit_length() - 4)) if rows >= BLOCK else 1
