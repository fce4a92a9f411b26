"""Copies a model's module tree without copying its tensors, so that mode, hooks and settings can differ.

Inspection must not change the model for other threads, which may use it at the same time.
"""

from copy import copy
from functools import partial
from types import MethodType
from typing import Any, TypeVar, cast

from torch import nn

M = TypeVar("M", bound=nn.Module)


def copy_in_eval_mode(model: M) -> M:
    """Returns the model if none of its modules is in training mode or compiled, else a copy in evaluation mode."""
    plain = all(not module.training and module._compiled_call_impl is None for module in model.modules())
    return model if plain else copy_module_tree(model).eval()


def copy_module_tree(model: M) -> M:
    """Returns a short-lived copy of all modules that shares the tensors.

    The copy has separate modes, hooks, submodules and attributes, and is not compiled. References between modules other
    than submodules and bound methods still refer to the model's modules.
    """
    copies: dict[Any, nn.Module] = {module: type(module).__new__(type(module)) for module in model.modules()}
    for module, copied in copies.items():
        for name, value in module.__dict__.items():
            # Parameters, buffers, hooks and submodules are in dictionaries.
            copied.__dict__[name] = copy(value) if isinstance(value, dict) else _rebound(value, copies)
        copied.__dict__.pop("_compiled_call_impl", None)
        copied._modules = {name: None if child is None else copies[child] for name, child in module._modules.items()}
    return cast(M, copies[model])


def _rebound(value: Any, copies: dict[Any, nn.Module]) -> Any:
    """Returns the copy's method for a module's method (libraries replace `forward` by one); other values unchanged."""
    if isinstance(value, MethodType) and isinstance(value.__self__, nn.Module):
        return MethodType(value.__func__, copies.get(value.__self__, value.__self__))
    if isinstance(value, partial):
        arguments = [copies.get(part, part) if isinstance(part, nn.Module) else part for part in value.args]
        rebound = partial(_rebound(value.func, copies), *arguments, **value.keywords)
        rebound.__dict__.update(value.__dict__)
        return rebound
    return value
