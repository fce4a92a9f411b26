"""Devices that run asynchronously, such as GPUs, and how to avoid synchronizing with them.

Reading a value from such a device waits for all queued kernels, and afterwards the device waits for Python. So training
and search rarely synchronize, keep values on the device, and copy many of them at a time. On a CPU reading a value
costs nothing: it is read at each step, so that finished sentences are removed earlier.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

GPU_TYPES = {"cuda"}
"""The device types that run asynchronously. Apple's does, too, but was not tested."""
SHARE = 64
"""One large tensor may take 1/SHARE of a device's memory."""


def is_gpu(device: torch.device) -> bool:
    """Returns True if `device` runs asynchronously (CUDA), so that reading a value waits for all queued kernels."""
    return device.type in GPU_TYPES


def choose_chunk_bytes(device: torch.device) -> int:
    """Returns the number of bytes that a large tensor may take on `device`; 0 if larger tensors bring no gain."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).total_memory) // SHARE


def to_cpu(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns tensors on the CPU; tensors on an asynchronous device are copied together, as bytes."""
    fetched = list(tensors)
    waited_for = [place for place, tensor in enumerate(tensors) if is_gpu(tensor.device)]
    if not waited_for:
        return fetched
    # The widest dtype first, so that each dtype begins at a multiple of its width.
    dtypes = sorted({tensors[place].dtype for place in waited_for}, key=lambda dtype: -dtype.itemsize)
    places_of = {dtype: [place for place in waited_for if tensors[place].dtype == dtype] for dtype in dtypes}
    joined = [torch.cat([tensors[place].flatten() for place in places]) for places in places_of.values()]
    together = torch.cat([numbers.view(torch.uint8) for numbers in joined]).cpu()
    of_dtypes = torch.split(together, [numbers.nbytes for numbers in joined])
    for (dtype, places), of_dtype in zip(places_of.items(), of_dtypes, strict=True):
        parts = torch.split(of_dtype.view(dtype), [tensors[place].numel() for place in places])
        for place, part in zip(places, parts, strict=True):
            fetched[place] = part.view(tensors[place].shape)
    return fetched


def to_device_async(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a small tensor on `device`, without synchronizing."""
    return tensor.to(device, non_blocking=True)
