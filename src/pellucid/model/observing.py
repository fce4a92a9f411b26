"""Lets others see what each call of attention() works on: traces, pictures and ablations are made of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Observer = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor], None]
"""Called with q, k, v, mask, bias and output of a call of attention()."""


@dataclass(frozen=True)
class _Observation:
    """An observer, the modules whose calls it sees (None: all), and who observed before."""

    observer: Observer
    modules: frozenset[nn.Module] | None
    outer: "_Observation | None"

    def tell(self, block: nn.Module | None, *seen: Tensor | None) -> None:
        """Tells the innermost observer that may see a call of `block`; without a block, the innermost of all."""
        if self.modules is None or block is None or block in self.modules:
            self.observer(*seen)  # type: ignore[arg-type]
        elif self.outer is not None:
            self.outer.tell(block, *seen)


# Belongs to a thread or an asyncio task, not to the process: what others compute meanwhile is not observed.
_observation: ContextVar[_Observation | None] = ContextVar("pellucid_observation", default=None)


def tell_observer(block: nn.Module | None, *seen: Tensor | None) -> None:
    """Tells the observer that may see a call of `block`, where there is one, what attention() has worked on."""
    # TorchDynamo cannot read a ContextVar: who wants to observe a compiled model observes it uncompiled.
    if not torch.compiler.is_dynamo_compiling() and (observation := _observation.get()) is not None:
        observation.tell(block, *seen)


@contextmanager
def observing(observer: Observer, model: nn.Module | None = None) -> Iterator[None]:
    """Calls `observer(q, k, v, mask, bias, output)` at each attention() within.

    Within means: by this thread, or this asyncio task. With a `model`, the observer sees the calls of that model's
    modules, and those that name no `block`. Of several observers one within the other, the innermost that may see a
    call does. Without an observer a call costs one look.
    """
    modules = None if model is None else frozenset(model.modules())
    token = _observation.set(_Observation(observer, modules, _observation.get()))
    try:
        yield
    finally:
        _observation.reset(token)
