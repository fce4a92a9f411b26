"""Devices that work through a queue, as a GPU does, while Python goes on, and how not to wait for them.

To ask such a device for a number is to wait until its queue is empty, and then it waits for Python in turn. So training
and search ask seldom, keep on the device what they can do without, and fetch many numbers at a time. On a CPU a number
is there as soon as Python is: it is asked at once, which lets finished sentences leave earlier.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

QUEUED = {"cuda"}
"""The types of device that work through a queue. Apple's does, too, but nobody has tried it there."""
SHARE = 64
"""The part of a device's memory, one in so many, that one of several large tensors may take."""


def has_queue(device: torch.device) -> bool:
    """Tells whether Python runs ahead of what `device` computes, and should not ask it for numbers at each step."""
    return device.type in QUEUED


def large_tensor(device: torch.device) -> int:
    """Returns how many bytes a large tensor may take on `device`; 0: there is no reason to make it larger."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).total_memory) // SHARE


def fetch(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns tensors on the CPU: those of a device with a queue in one copy, as bytes."""
    fetched = list(tensors)
    waited_for = [place for place, tensor in enumerate(tensors) if has_queue(tensor.device)]
    if not waited_for:
        return fetched
    # The widest numbers first, so that each type begins at a multiple of its width.
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


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a small tensor on `device`, without waiting for what that has still to do."""
    return tensor.to(device, non_blocking=True)
