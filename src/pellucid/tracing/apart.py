"""A model's modules apart from the model: of the same weights, with a mode, hooks and settings of their own.

Whoever looks into a model must not change it for others, who may use it at the same time in another thread.
"""

from copy import copy
from functools import partial
from types import MethodType
from typing import Any, TypeVar, cast

from torch import nn

M = TypeVar("M", bound=nn.Module)


def in_evaluation(model: M) -> M:
    """Returns the model itself where none of its modules is in training mode or compiled, else such a copy of them."""
    plain = all(not module.training and module._compiled_call_impl is None for module in model.modules())
    return model if plain else apart(model).eval()


def apart(model: M) -> M:
    """Returns a copy of all modules that holds the same tensors, for a moment's use.

    Modes, hooks, submodules and attributes of the copy are its own, and it is not compiled. What one module knows of
    another otherwise than as a submodule, or by a method of it, is still the model's.
    """
    copies: dict[Any, nn.Module] = {module: type(module).__new__(type(module)) for module in model.modules()}
    for module, copied in copies.items():
        for name, value in module.__dict__.items():
            # Parameters, buffers, hooks and submodules stand in dictionaries.
            copied.__dict__[name] = copy(value) if isinstance(value, dict) else _rebound(value, copies)
        copied.__dict__.pop("_compiled_call_impl", None)
        copied._modules = {name: None if child is None else copies[child] for name, child in module._modules.items()}
    return cast(M, copies[model])


def _rebound(value: Any, copies: dict[Any, nn.Module]) -> Any:
    """Returns a method of a module, as libraries put them in place of `forward`, as its copy's; all else as it is."""
    if isinstance(value, MethodType) and isinstance(value.__self__, nn.Module):
        return MethodType(value.__func__, copies.get(value.__self__, value.__self__))
    if isinstance(value, partial):
        arguments = [copies.get(part, part) if isinstance(part, nn.Module) else part for part in value.args]
        rebound = partial(_rebound(value.func, copies), *arguments, **value.keywords)
        rebound.__dict__.update(value.__dict__)
        return rebound
    return value
