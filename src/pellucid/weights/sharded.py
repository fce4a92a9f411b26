"""Gathers and splits sharded tensors (torch.distributed's DTensor: each rank holds some rows).

A tensor that is not a DTensor is returned unchanged.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


def is_sharded(tensor: Tensor) -> bool:
    """Returns True if this rank holds only some rows of a tensor."""
    if type(tensor) in (Tensor, nn.Parameter):
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def gather_full_tensor(tensor: Tensor) -> Tensor:
    """Returns the full tensor. If it is sharded, all ranks must call this function, and all receive the full tensor."""
    sharded: Any = tensor.detach()
    return sharded.full_tensor() if is_sharded(tensor) else tensor


def gather_full_tensors(tensors: Mapping[str, Tensor], wanted: bool = True) -> dict[str, Tensor]:
    """Returns the full tensors by name; tensors that were sharded are on the CPU. All ranks must call this function.

    Args:
        wanted: False on ranks that only contribute their rows: each full tensor is freed at once.
    """
    pairs = (
        (name, gather_full_tensor(tensor).cpu() if is_sharded(tensor) else tensor) for name, tensor in tensors.items()
    )
    return {name: tensor for name, tensor in pairs if wanted}


def shard_like(tensor: Tensor, other: Tensor) -> Tensor:
    """Returns this rank's rows of a full tensor if `other` is sharded and has its shape."""
    if not is_sharded(other) or tensor.shape != other.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    sharded: Any = other
    # Each rank has read the full tensor, so no communication is needed.
    return distribute_tensor(tensor.to(other.device), sharded.device_mesh, sharded.placements, src_data_rank=None)


def get_local_rows(tensor: Tensor) -> tuple[Tensor, int]:
    """Returns the rows of a tensor that this rank holds, and the index of the first row."""
    if not is_sharded(tensor):
        return tensor, 0
    sharded: Any = tensor
    most = -(-tensor.size(0) // sharded.device_mesh.size())  # as torch.chunk divides them
    return sharded.to_local(), sharded.device_mesh.get_local_rank() * most
