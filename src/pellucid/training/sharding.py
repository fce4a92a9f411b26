"""`train.shard`: weights, gradients and moments are dealt out among the ranks, for what does not fit on one of them.

PyTorch's FSDP2 (Zhao et al. 2023) gathers the weights of a layer when it is computed, and lets them go after; the sum
of its gradient over the ranks reaches each only for the rows that it holds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from pellucid.data.batching import Batch
from pellucid.errors import ConfigError, PellucidError
from pellucid.model.layers import Decoder, Encoder
from pellucid.training.adam import PaperAdam
from pellucid.training.failures import is_out_of_memory
from pellucid.training.loss import Losses, name_of
from pellucid.training.ranks import Ranks


class LossOfModel(nn.Module):
    """Computes a batch's losses as a module: what belongs to no layer is gathered before, and let go after."""

    def __init__(self, model: nn.Module, loss: Callable[[Any, Batch], Losses]) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Batch) -> Losses:
        """Returns the losses of a batch."""
        return self.loss(self.model, batch)


class Sharding:
    """Holds a model whose parameters, and those of a loss that has some, are dealt out among several ranks.

    From here on they are DTensors: `weights.sharded` has the whole ones. All ranks call every method together.
    """

    def __init__(self, model: nn.Module, loss: Callable[[Any, Batch], Losses], ranks: Ranks) -> None:
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import FSDPModule, fully_shard

        ranks.same_weights(model)
        if isinstance(loss, nn.Module):
            ranks.same_weights(loss)
        self._ranks = ranks
        self.losses: LossOfModel = LossOfModel(model, loss)
        mesh = DeviceMesh.from_group(ranks.group, next(model.parameters()).device.type)
        for layer in _layers_of_their_own(model):
            fully_shard(layer, mesh=mesh)
        fully_shard(self.losses, mesh=mesh)
        self._sharded = [module for module in self.losses.modules() if isinstance(module, FSDPModule)]
        for module in self._sharded:  # sums, which the step divides by its tokens: FSDP2 would take the mean of ranks
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)

    @contextmanager
    def whole_weights(self) -> Iterator[None]:
        """Gives each rank all weights within the context, so that they can be used without the others."""
        self.end()
        try:
            yield
        finally:
            for module in self._sharded:
                module.reshard()
                module.set_reshard_after_forward(id(module) != id(self.losses), recurse=False)

    def end(self) -> None:
        """Gives each rank all weights from here on."""
        for module in self._sharded:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Says what an error means in the middle of what the ranks do together, where the others wait for this one.

        Raises LostRankError for a connection that is lost, PellucidError for memory that does not suffice.
        """
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                raise PellucidError(
                    f"out of memory on rank {self._ranks.rank}; with `train.shard` batches are not taken in smaller "
                    "parts, since the other ranks are in the middle of the step, too",
                    "start over with `fresh=True` and a lower `train.batch_tokens` with a higher `train.accumulate`, "
                    "with `train.recompute = true`, or on more ranks",
                ) from error
            if _is_of_network(error):
                raise self._ranks.lost(error) from error
            raise


def check_shared_out(optimizer: object) -> None:
    """Raises ConfigError for an optimizer that may need more of a weight than the rows that a rank holds."""
    if not isinstance(optimizer, PaperAdam):
        raise ConfigError(
            f"`optimizer` ({name_of(optimizer)}) cannot be used with `train.shard`: each rank holds some rows of each "
            "weight alone, and only of Adam and Muon from the settings it is known that they can do with those",
            "leave `train.shard` out, or `optimizer`",
        )


def _layers_of_their_own(model: nn.Module) -> list[nn.Module]:
    """Returns the layers of all stacks, but for those that share parameters: they stay with what is no layer."""
    layers = [layer for stack in model.modules() if isinstance(stack, Encoder | Decoder) for layer in stack.layers]
    places: dict[int, int] = {}
    for _, parameter in model.named_parameters(remove_duplicate=False):
        places[id(parameter)] = places.get(id(parameter), 0) + 1
    return [layer for layer in layers if all(places[id(p)] == 1 for p in layer.parameters())]


def _is_of_network(error: BaseException) -> bool:
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error).lower()
