"""Builds a model to load weights into, without random initialization, which takes minutes for large models."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pellucid.config import ModelConfig
from pellucid.model.families import Model, build_model
from pellucid.model.parts import Parts

_DRAWS = (Tensor.normal_, Tensor.uniform_)


def build_uninitialised(config: ModelConfig, parts: Parts | None = None) -> Model:
    """Returns a model with uninitialized matrices: the caller must set all parameters.

    The state of the caller's random number generator does not change.
    """
    with _NothingDrawn():
        return build_model(config, parts)


def build_on_meta(config: ModelConfig) -> Model:
    """Returns the model of `config` on the meta device: names and shapes without memory."""
    with torch.device("meta"):
        return build_uninitialised(config)


class _NothingDrawn(TorchFunctionMode):
    """A mode in which functions that fill a tensor with random numbers leave it unchanged; all else is computed."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        draws = func in _DRAWS or getattr(func, "__module__", "") == torch.nn.init.__name__
        return (args[0] if args else given["tensor"]) if draws else func(*args, **given)
