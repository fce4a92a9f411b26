"""Lets others see what each call of attention() and each residual sum works on.

Traces, pictures, ablations and all that is said of a model's words is made of it.
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
"""Called with a layer, the norm of one of its sublayers, and what that sublayer's residual sum worked on: what came in,
what the sublayer adds to it, and what goes on, behind the norm where that stands behind the sum; (B, L, D) each."""


@dataclass(frozen=True)
class _Observation:
    """An observer, the modules whose calls it sees (None: all), and who observed before."""

    observer: Callable[..., None]
    modules: frozenset[nn.Module] | None
    outer: "_Observation | None"

    def tell(self, block: nn.Module | None, *seen: Any) -> None:
        """Tells the innermost observer that may see a call of `block`; without a block, the innermost of all."""
        if self.modules is None or block is None or block in self.modules:
            self.observer(*seen)
        elif self.outer is not None:
            self.outer.tell(block, *seen)


# Belong to a thread or an asyncio task, not to the process: what others compute meanwhile is not observed.
_observation: ContextVar[_Observation | None] = ContextVar("pellucid_observation", default=None)
_of_sums: ContextVar[_Observation | None] = ContextVar("pellucid_observation_of_sums", default=None)


def is_observed() -> bool:
    """Tells whether anybody observes here: this thread, or this asyncio task."""
    return _observation.get() is not None or _of_sums.get() is not None


def tell_observer(block: nn.Module | None, *seen: Tensor | None) -> None:
    """Tells the observer that may see a call of `block`, where there is one, what attention() has worked on."""
    # TorchDynamo cannot read a ContextVar: who wants to observe a compiled model observes it uncompiled.
    if not torch.compiler.is_dynamo_compiling() and (observation := _observation.get()) is not None:
        observation.tell(block, *seen)


def tell_of_sum(layer: nn.Module, norm: nn.Module, before: Tensor, added: Tensor, after: Tensor) -> None:
    """Tells the observer that may see `layer`, where there is one, of the residual sum around a sublayer of it."""
    if not torch.compiler.is_dynamo_compiling() and (observation := _of_sums.get()) is not None:
        observation.tell(layer, layer, norm, before, added, after)


@contextmanager
def observing(observer: Observer, model: nn.Module | None = None) -> Iterator[None]:
    """Calls `observer(q, k, v, mask, bias, output)` at each attention() within.

    Within means: by this thread, or this asyncio task. With a `model`, the observer sees the calls of that model's
    modules, and those that name no `block`. Of several observers one within the other, the innermost that may see a
    call does. Without an observer a call costs one look.
    """
    with _observing(_observation, observer, model):
        yield


@contextmanager
def observing_sums(observer: SumObserver, model: nn.Module | None = None) -> Iterator[None]:
    """Calls `observer(layer, norm, before, added, after)` at each residual sum within, by the rules of `observing`."""
    with _observing(_of_sums, observer, model):
        yield


@contextmanager
def _observing(
    where: ContextVar[_Observation | None], observer: Callable[..., None], model: nn.Module | None
) -> Iterator[None]:
    modules = None if model is None else frozenset(model.modules())
    token = where.set(_Observation(observer, modules, where.get()))
    try:
        yield
    finally:
        where.reset(token)
