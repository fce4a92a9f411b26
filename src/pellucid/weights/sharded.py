"""Tensors of which each rank holds some rows, as DTensor of torch.distributed has them, and the whole ones.

Whatever is no DTensor is whole already: the functions here then return it as it is.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


def is_sharded(tensor: Tensor) -> bool:
    """Returns whether this rank holds some rows of a tensor alone."""
    if type(tensor) in (Tensor, nn.Parameter):
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def whole(tensor: Tensor) -> Tensor:
    """Returns the whole of a tensor. Where it is sharded, all ranks call this, and all have it then."""
    sharded: Any = tensor.detach()
    return sharded.full_tensor() if is_sharded(tensor) else tensor


def whole_ones(tensors: Mapping[str, Tensor], wanted: bool = True) -> dict[str, Tensor]:
    """Returns the whole of named tensors; what was sharded, on the CPU. All ranks call this, as `whole`.

    Args:
        wanted: False on ranks that only hand over their parts: each whole tensor is let go at once.
    """
    pairs = ((name, whole(tensor).cpu() if is_sharded(tensor) else tensor) for name, tensor in tensors.items())
    return {name: tensor for name, tensor in pairs if wanted}


def sharded_like(tensor: Tensor, other: Tensor) -> Tensor:
    """Returns the rows of a whole tensor that this rank holds of `other`, where that is sharded and of its shape."""
    if not is_sharded(other) or tensor.shape != other.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    sharded: Any = other
    # Each rank has read the whole one, so that nothing has to be sent.
    return distribute_tensor(tensor.to(other.device), sharded.device_mesh, sharded.placements, src_data_rank=None)


def own_rows(tensor: Tensor) -> tuple[Tensor, int]:
    """Returns the rows of a tensor that this rank holds, and the number of the first of them."""
    if not is_sharded(tensor):
        return tensor, 0
    sharded: Any = tensor
    most = -(-tensor.size(0) // sharded.device_mesh.size())  # as torch.chunk deals them out
    return sharded.to_local(), sharded.device_mesh.get_local_rank() * most
