"""A model to put weights into: nothing is drawn that would be overwritten, which for large models takes minutes."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pellucid.config import ModelConfig
from pellucid.model.transformer import Model, build_model

_DRAWS = (Tensor.normal_, Tensor.uniform_)


def build_unfilled(config: ModelConfig) -> Model:
    """The model that `config` describes. Its matrices hold whatever was in memory: all parameters must be set.

    The caller's random numbers go on as if nothing had been built.
    """
    with _NothingDrawn():
        return build_model(config)


def outline(config: ModelConfig) -> Model:
    """Returns the model that `config` describes in names and shapes alone, without numbers and without memory."""
    with torch.device("meta"):
        return build_unfilled(config)


class _NothingDrawn(TorchFunctionMode):
    """Within it, what fills a tensor with random numbers leaves it as it is; all else is computed."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        draws = func in _DRAWS or getattr(func, "__module__", "") == torch.nn.init.__name__
        return (args[0] if args else given["tensor"]) if draws else func(*args, **given)
