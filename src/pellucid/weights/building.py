"""A model to put weights into, without drawing random ones first, which for large models takes minutes."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pellucid.config import ModelConfig
from pellucid.model.families import Model, build_model
from pellucid.model.parts import Parts

_DRAWS = (Tensor.normal_, Tensor.uniform_)


def build_unfilled(config: ModelConfig, parts: Parts | None = None) -> Model:
    """Returns a model whose matrices hold whatever was in memory: all parameters must be set.

    The caller's random numbers go on as if nothing had been built.
    """
    with _NothingDrawn():
        return build_model(config, parts)


def outline(config: ModelConfig) -> Model:
    """Returns the model that `config` describes in names and shapes alone, without numbers and without memory."""
    with torch.device("meta"):
        return build_unfilled(config)


class _NothingDrawn(TorchFunctionMode):
    """A mode in which functions that fill a tensor with random numbers leave it as it is; all else is computed."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        draws = func in _DRAWS or getattr(func, "__module__", "") == torch.nn.init.__name__
        return (args[0] if args else given["tensor"]) if draws else func(*args, **given)
