"""Observers of attention() and residual sums: callbacks that receive the tensors of each call.

Traces, pictures, ablations and all attributions to a model's tokens are based on them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Observer = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor], None]
"""Called with q, k, v, mask, bias and output of a call of attention()."""

SumObserver = Callable[[nn.Module, nn.Module, Tensor, Tensor, Tensor], None]
"""Called with a layer, the norm of one of its sublayers, and the tensors of that sublayer's residual sum: the input,
the sublayer's output, and the result, after the norm in a post-norm layer; (B, L, D) each."""


@dataclass(frozen=True)
class _Observation:
    """An observer, the modules whose calls it receives (None: all), and the outer observation."""

    observer: Callable[..., None]
    modules: frozenset[nn.Module] | None
    outer: "_Observation | None"

    def notify(self, block: nn.Module | None, *seen: Any) -> None:
        """Calls the innermost observer that includes `block`; without a block, the innermost of all."""
        if self.modules is None or block is None or block in self.modules:
            self.observer(*seen)
        elif self.outer is not None:
            self.outer.notify(block, *seen)


# Per thread or asyncio task, not per process: calls of other threads and tasks are not observed.
_observation: ContextVar[_Observation | None] = ContextVar("pellucid_observation", default=None)
_of_sums: ContextVar[_Observation | None] = ContextVar("pellucid_observation_of_sums", default=None)


def is_observed() -> bool:
    """Returns True if there is an observer in this thread or asyncio task."""
    return _observation.get() is not None or _of_sums.get() is not None


def notify_attention(block: nn.Module | None, *seen: Tensor | None) -> None:
    """Calls the observer that includes `block`, if there is one, with the tensors of attention()."""
    # TorchDynamo cannot read a ContextVar: to observe a compiled model, use it uncompiled.
    if not torch.compiler.is_dynamo_compiling() and (observation := _observation.get()) is not None:
        observation.notify(block, *seen)


def notify_residual(layer: nn.Module, norm: nn.Module, before: Tensor, added: Tensor, after: Tensor) -> None:
    """Calls the observer that includes `layer`, if there is one, with the residual sum around a sublayer of it."""
    if not torch.compiler.is_dynamo_compiling() and (observation := _of_sums.get()) is not None:
        observation.notify(layer, layer, norm, before, added, after)


@contextmanager
def observe_attention(observer: Observer, model: nn.Module | None = None) -> Iterator[None]:
    """Calls `observer(q, k, v, mask, bias, output)` at each attention() in this thread or asyncio task.

    With a `model`, the observer receives the calls of that model's modules, and the calls without a `block`. Of nested
    observers, the innermost that includes a call receives it. Without an observer a call costs one lookup.
    """
    with _observe(_observation, observer, model):
        yield


@contextmanager
def observe_residuals(observer: SumObserver, model: nn.Module | None = None) -> Iterator[None]:
    """Calls `observer(layer, norm, before, added, after)` at each residual sum, as `observe_attention` does."""
    with _observe(_of_sums, observer, model):
        yield


@contextmanager
def _observe(
    where: ContextVar[_Observation | None], observer: Callable[..., None], model: nn.Module | None
) -> Iterator[None]:
    modules = None if model is None else frozenset(model.modules())
    token = where.set(_Observation(observer, modules, where.get()))
    try:
        yield
    finally:
        where.reset(token)
