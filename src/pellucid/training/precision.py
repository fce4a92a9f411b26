"""Computes the matrix products of training in the dtype of `train.precision`, all else in single precision."""

import time
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from pellucid.model.fast.linear import Linear
from pellucid.model.fast.products import matmul_nt

SIZE, ROUNDS = 512, 7  # size and number of the timed products: a few milliseconds in all
WORTHWHILE = 1.2


def set_compute_dtype(model: nn.Module, precision: str) -> None:
    """Sets the dtype in which linear layers and loss compute their products in training mode."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.compute_dtype = torch.bfloat16 if precision == "bfloat16" else None


def autocast(model: nn.Module) -> AbstractContextManager[object]:
    """Returns the context for a forward pass: `torch.autocast` for a model in half precision on a GPU.

    On a CPU the layers cast by themselves (see model/fast/linear.py).
    """
    linear = next((module for module in model.modules() if isinstance(module, Linear)), None)
    if linear is None:  # a custom model
        return nullcontext()
    dtype, device = linear.product_dtype, linear.weight.device
    return nullcontext() if dtype is None or device.type == "cpu" else torch.autocast(device.type, dtype)


def bfloat16_gain(device: torch.device) -> float:
    """Returns the measured speedup of matrix products in bfloat16 over single precision on this machine."""
    if device.type != "cpu":
        return 1.0 if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False) else 2.0
    return _milliseconds(torch.float32) / _milliseconds(torch.bfloat16)


def get_precision_warning(device: torch.device) -> str:
    """Returns a warning for a machine on which bfloat16 is not faster; otherwise an empty text."""
    gain = bfloat16_gain(device)
    if gain >= WORTHWHILE:
        return ""
    return (
        f'`train.precision = "bfloat16"` is of little use on this machine: its matrix products run at {gain:.2g} '
        "times the speed of float32"
    )


def _milliseconds(dtype: torch.dtype) -> float:
    """Returns the time of the fastest of ROUNDS products of two square matrices."""
    a, b = (torch.ones(SIZE, SIZE, dtype=dtype) for _ in range(2))
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        matmul_nt(a, b)
        times.append(time.perf_counter() - started)
    return 1000 * min(times)
