"""Matrix products in single precision on a CPU, by the faster of the two libraries that come with PyTorch.

PyTorch takes them from MKL, which leaves half of an AMD processor's speed unused: it knows AVX-512 on Intel's alone.
oneDNN, which takes PyTorch's products in half precision, knows it on both (benchmarks/products.py). It is asked through
an operator that PyTorch's own compiler uses, here and nowhere else; where that is not there, or not clearly faster, all
products are PyTorch's.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

LEAST_ROWS, LEAST_WORK = 3, 1 << 21
"""The rows, and the multiplications, from which oneDNN is the faster one: below them a call of it costs too much."""
BLOCK = 16
"""The rows that it takes together."""
WORTHWHILE = 1.4
"""The gain from which it is asked. Where MKL knows the processor it is about 1, else 2 and more: so what is measured
anew in each process decides alike in each, and a run that goes on has the digits that it would have had."""
SIZE, ROUNDS = 256, 20

_plain = False


@contextmanager
def plain_products() -> Iterator[None]:
    """Has PyTorch take all products within the context: to count or to compare them. It holds for all threads."""
    global _plain
    before, _plain = _plain, True
    try:
        yield
    finally:
        _plain = before


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x W^T + b: (..., K), (N, K) -> (..., N). No gradient goes through it where oneDNN takes the product."""
    if torch.is_grad_enabled() or not by_onednn(x, weight):
        return F.linear(x, weight, bias)
    return _linear(x.reshape(-1, x.size(-1)), weight, bias).view(*x.shape[:-1], weight.size(0))


def product(x: Tensor, weight: Tensor) -> Tensor:
    """Returns x W^T without a gradient: (R, K), (N, K) -> (R, N)."""
    return _linear(x, weight, None) if by_onednn(x, weight) else x @ weight.t()


def summed_product(x: Tensor, y: Tensor) -> Tensor:
    """Returns x^T y without a gradient, a sum over many rows: (R, N), (R, K) -> (N, K)."""
    if x.size(0) < BLOCK or not by_onednn(x.t(), y.t()):
        return x.t() @ y
    whole = x.size(0) - x.size(0) % _step(x.size(0))
    found = _onednn(x[:whole].t(), y[:whole].t(), None)
    return found if whole == x.size(0) else found.addmm_(x[whole:].t(), y[whole:])


def by_onednn(x: Tensor, weight: Tensor) -> bool:
    """Tells whether oneDNN takes a product: (..., K), (N, K)."""
    if torch._C._get_tracing_state() or torch.compiler.is_compiling():
        return False  # what follows operators knows those of PyTorch alone, and takes a size for any
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
    """Returns how many times as fast as MKL oneDNN is here, on small products whose best times are compared."""
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

    oneDNN compiles a product for each shape that it meets, which takes half a millisecond, and keeps a thousand. So
    rows come in few numbers: with rows of no meaning below, or the last few by MKL, whichever copies less.
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
    """Returns what a number of rows is made a multiple of: an eighth of the power of two below it, at least a block.

    Fewer rows than that are few numbers of rows as they are.
    """
    return max(BLOCK, 1 << max(0, rows.bit_length() - 4)) if rows >= BLOCK else 1
