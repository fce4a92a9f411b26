"""Takes the matrix products of training in the type of `train.precision`. All else stays in single precision."""

import time
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from pellucid.model.fast.linear import Linear
from pellucid.model.fast.products import product

SIZE, ROUNDS = 512, 7  # of the products that are timed: a few milliseconds in all
WORTHWHILE = 1.2


def multiply_in(model: nn.Module, precision: str) -> None:
    """Makes the model's linear layers, and the loss, take their products in `precision` while the model trains."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.compute_dtype = torch.bfloat16 if precision == "bfloat16" else None


def autocast(model: nn.Module) -> AbstractContextManager[object]:
    """Returns what a forward pass runs in: on a GPU, where the model multiplies in half precision, `torch.autocast`.

    A CPU needs none: there the layers do it themselves (model/fast/linear.py says why).
    """
    linear = next((module for module in model.modules() if isinstance(module, Linear)), None)
    if linear is None:  # a model of one's own
        return nullcontext()
    dtype, device = linear.product_dtype, linear.weight.device
    return nullcontext() if dtype is None or device.type == "cpu" else torch.autocast(device.type, dtype)


def bfloat16_gain(device: torch.device) -> float:
    """Returns how many times as fast as in single precision this machine multiplies in bfloat16: it measures it."""
    if device.type != "cpu":
        return 1.0 if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False) else 2.0
    return _milliseconds(torch.float32) / _milliseconds(torch.bfloat16)


def warning(device: torch.device) -> str:
    """Returns a warning for a machine on which bfloat16 gains nothing; empty where it gains."""
    gain = bfloat16_gain(device)
    if gain >= WORTHWHILE:
        return ""
    return (
        f'`train.precision = "bfloat16"` is not worth while on this machine: its matrix products run at {gain:.2g} '
        "times the speed of float32"
    )


def _milliseconds(dtype: torch.dtype) -> float:
    """Returns the time of the fastest of some products of two square matrices."""
    a, b = (torch.ones(SIZE, SIZE, dtype=dtype) for _ in range(2))
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        product(a, b)
        times.append(time.perf_counter() - started)
    return 1000 * min(times)
