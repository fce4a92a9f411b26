"""`train.fsdp`: shards weights, gradients and moments over the ranks, for models that do not fit on one of them.

PyTorch's FSDP2 (Zhao et al. 2023) gathers the weights of a layer when it is computed, and frees them afterwards; each
rank receives the sum of the gradient over ranks only for its own rows.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from pellucid.data.batching import Batch
from pellucid.errors import ConfigError, PellucidError
from pellucid.model.layers import Decoder, Encoder
from pellucid.training.adam import PaperAdam
from pellucid.training.failures import is_out_of_memory
from pellucid.training.loss import Losses, get_callable_name
from pellucid.training.ranks import DistributedContext


class LossOfModel(nn.Module):
    """Computes a batch's losses as a module: parameters outside of layers are gathered before and freed afterwards."""

    def __init__(self, model: nn.Module, loss: Callable[[Any, Batch], Losses]) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Batch) -> Losses:
        """Returns the losses of a batch."""
        return self.loss(self.model, batch)


class Replicas:
    """A model of which each rank has all weights. `Sharding` is the same for sharded weights."""

    is_sharded: bool = False

    def __init__(self, model: nn.Module, loss: Callable[[Any, Batch], Losses], ranks: DistributedContext) -> None:
        self._model, self._loss, self._ranks = model, loss, ranks

    def losses(self, batch: Batch) -> Losses:
        """Returns the losses of a batch."""
        return self._loss(self._model, batch)

    def broadcast_weights(self) -> None:
        """Sends rank 0's weights to all ranks."""
        self._ranks.broadcast_parameters(self._model)

    def gather_weights(self) -> AbstractContextManager[None]:
        """Gathers all weights on each rank within the context, so that each can use them without the others."""
        return nullcontext()

    def end(self) -> None:
        """Gathers all weights on each rank permanently."""

    def explain_errors(self) -> AbstractContextManager[None]:
        """Explains an error within a collective operation, for which the other ranks wait.

        Raises LostRankError for a lost connection, PellucidError if memory is insufficient.
        """
        return nullcontext()


class Sharding(Replicas):
    """A model whose parameters, and the loss's, if any, are sharded over several ranks.

    They become DTensors: `weights.sharded` gathers them. All ranks call every method together.
    """

    is_sharded = True

    def __init__(self, model: nn.Module, loss: Callable[[Any, Batch], Losses], ranks: DistributedContext) -> None:
        super().__init__(model, loss, ranks)
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import FSDPModule, fully_shard

        ranks.broadcast_parameters(model)
        if isinstance(loss, nn.Module):
            ranks.broadcast_parameters(loss)
        self._losses = LossOfModel(model, loss)
        mesh = DeviceMesh.from_group(ranks.group, next(model.parameters()).device.type)
        for layer in _layers_of_their_own(model):
            fully_shard(layer, mesh=mesh)
        fully_shard(self._losses, mesh=mesh)
        self._sharded = [module for module in self._losses.modules() if isinstance(module, FSDPModule)]
        for module in self._sharded:  # sums, which the step divides by its tokens: FSDP2 would average over ranks
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)

    def losses(self, batch: Batch) -> Losses:
        found: Losses = self._losses(batch)
        return found

    def broadcast_weights(self) -> None:
        pass  # each rank has read its rows

    @contextmanager
    def gather_weights(self) -> Iterator[None]:
        self.end()
        try:
            yield
        finally:
            for module in self._sharded:
                module.reshard()
                module.set_reshard_after_forward(id(module) != id(self._losses), recurse=False)

    def end(self) -> None:
        for module in self._sharded:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                raise PellucidError(
                    f"out of memory on rank {self._ranks.rank}; with `train.fsdp` batches are not split, since the "
                    "other ranks are in the middle of the step",
                    "start over with `fresh=True` and a lower `train.batch_tokens` with a higher `train.accumulate`, "
                    "with `train.gradient_checkpointing = true`, or on more ranks",
                ) from error
            if _is_of_network(error):
                raise self._ranks.make_lost_rank_error(error) from error
            raise


def check_shardable(optimizer: object) -> None:
    """Raises ConfigError for an optimizer that may need more of a weight than a rank's rows."""
    if not isinstance(optimizer, PaperAdam):
        raise ConfigError(
            f"`optimizer` ({get_callable_name(optimizer)}) cannot be used with `train.fsdp`: each rank holds only "
            "some rows of each weight, and only the built-in Adam and Muon support that",
            "leave `train.fsdp` out, or `optimizer`",
        )


def _layers_of_their_own(model: nn.Module) -> list[nn.Module]:
    """Returns the layers of all stacks, except for layers that share parameters, which are sharded with the rest."""
    layers = [layer for stack in model.modules() if isinstance(stack, Encoder | Decoder) for layer in stack.layers]
    places: dict[int, int] = {}
    for _, parameter in model.named_parameters(remove_duplicate=False):
        places[id(parameter)] = places.get(id(parameter), 0) + 1
    return [layer for layer in layers if all(places[id(p)] == 1 for p in layer.parameters())]


def _is_of_network(error: BaseException) -> bool:
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error).lower()
