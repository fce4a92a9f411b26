"""Custom modules that replace Pellucid's in a model.

    class Windowed(pellucid.MultiHeadAttention): ...

    model = pellucid.Transformer(config, parts=pellucid.Parts(attention=Windowed.from_config))

docs/guides/your-own-parts.md has an example of each.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from types import MethodType
from typing import Any, TypeVar

from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError
from pellucid.model.attention_positions import Distances
from pellucid.model.positions import AbsolutePositions

Factory = Callable[[ModelConfig], nn.Module]
M = TypeVar("M", bound=nn.Module | None)

CALLED_WITH = {
    "attention": "x, memory, mask=, cache=, distances=",
    "feed_forward": "x",
    "norm": "x",
    "positions": "query_positions, key_positions",
    "encoder_layer": "x, mask, distances",
    "decoder_layer": "x, memory, mask, memory_mask, cache, distances",
}
"""The arguments that a model calls each part with."""


@dataclass(frozen=True)
class Parts:
    """Factories for custom modules.

    Each factory is called with the model's config, once per place in the model; None selects the built-in module. A
    custom module is called with the same arguments as the module that it replaces. `pellucid.Linear` and attention that
    derives from `MultiHeadAttention` are initialized as everywhere in a model; all other parameters keep the values of
    their constructor.

    Raises ConfigError for a value that cannot make modules.
    """

    attention: Factory | None = None
    """Self- and cross-attention: attention(x, memory, mask=..., cache=..., distances=...), (B, L, D) -> (B, L, D).
    `memory` (B, M, D) is None for self-attention."""
    feed_forward: Factory | None = None
    """The network after the attention: feed_forward(x), (B, L, D) -> (B, L, D)."""
    norm: Factory | None = None
    """Every norm of the residual stream: norm(x), (B, L, D) -> (B, L, D)."""
    positions: Factory | None = None
    """Replaces `config.positions`: positions(query_positions, key_positions), (L,), (M,) -> Distances, per stack; or an
    AbsolutePositions, per embedding."""
    encoder_layer: Factory | None = None
    """A whole layer: layer(x, mask, distances), (B, S, D) -> (B, S, D)."""
    decoder_layer: Factory | None = None
    """A whole layer: layer(x, memory, mask, memory_mask, cache, distances), (B, T, D) -> (B, T, D)."""

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            given = getattr(self, name)
            if isinstance(given, nn.Module):
                kind = type(given).__name__
                raise ConfigError(
                    f"`{name}` of Parts is a {kind} instance; it must be a factory that makes a new module for each "
                    "place",
                    f"write Parts({name}={kind}), or Parts({name}=lambda config: {kind}(...))",
                )
            if given is not None and not callable(given):
                raise ConfigError(
                    f"`{name}` of Parts is {given!r}; it must be None or a callable (config) -> nn.Module",
                    "give a class whose constructor takes the config, or a function of it",
                )

    def make(self, name: str, config: ModelConfig, default: Callable[[ModelConfig], M]) -> nn.Module | M:
        """Returns a new module: from the factory `name` if there is one, otherwise from the `default`.

        Raises ConfigError if the factory does not return a module, or returns one that a model cannot call; later, in a
        call of the module, if its result has the wrong type or shape.
        """
        factory: Factory | None = getattr(self, name)
        if factory is None:
            return default(config)
        if wrong := _explain_refusal(factory, "config"):
            from_config = hasattr(factory, "from_config")
            kind = _get_names(factory)[1]
            raise ConfigError(
                f"`{name}` of Parts ({self.names[name]}) cannot be called with only the config: {wrong}",
                f"write Parts({name}={kind}.from_config)" if from_config else "let it take the model's config",
            )
        module = factory(config)
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"`{name}` of Parts ({self.names[name]}) made a {type(module).__name__}; it must make a torch.nn.Module"
            )
        if wrong := _explain_refusal(module.forward, CALLED_WITH[name]):
            raise ConfigError(
                f"`{name}` of Parts ({self.names[name]}) cannot be called as {name}({CALLED_WITH[name]}): {wrong}",
                f"let its forward() take {CALLED_WITH[name].replace('=', '')}",
            )
        if name != "positions":
            module.register_forward_hook(partial(_check_states, name))
        elif not isinstance(module, AbsolutePositions):
            module.register_forward_hook(_check_distances)
        return module

    @property
    def names(self) -> dict[str, str]:
        """Returns the qualified name of each custom factory: {"attention": "my_parts.Windowed"}."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: ".".join(_get_names(part)) for name, part in given.items() if part is not None}

    def fits(self, name: str, recorded: str) -> bool:
        """Returns True if a part has the name `recorded` in a folder.

        The Python module may differ, as classes of a script are in `__main__` there.
        """
        part = getattr(self, name)
        return part is not None and f".{recorded}".endswith(f".{_get_names(part)[1]}")


DEFAULT_PARTS = Parts()
"""Pellucid's own modules everywhere."""


def resolve_parts(parts: Parts | None) -> Parts:
    """Returns `parts`, or the built-in modules if None. Raises ConfigError if it is not a Parts."""
    if parts is not None and not isinstance(parts, Parts):
        raise ConfigError(
            f"`parts` is a {type(parts).__name__}, not a pellucid.Parts", "write parts=pellucid.Parts(attention=...)"
        )
    return DEFAULT_PARTS if parts is None else parts


def _explain_refusal(call: Callable[..., Any], arguments: str) -> str:
    """Returns why a call with these arguments, `x, mask=`, would fail; empty if no reason is known."""
    names = arguments.split(", ")
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # a class or a function that is not written in Python
        return ""
    try:
        signature.bind(*(n for n in names if n[-1] != "="), **{n[:-1]: None for n in names if n[-1] == "="})
    except TypeError as error:
        return str(error)
    return ""


def _check_states(name: str, part: nn.Module, given: tuple[Any, ...], returned: object) -> None:
    """Raises ConfigError unless a part returns a tensor of the shape of its first argument."""
    shape = tuple(given[0].shape)
    if isinstance(returned, Tensor) and tuple(returned.shape) == shape:
        return
    found = f"a tensor {tuple(returned.shape)}" if isinstance(returned, Tensor) else f"{type(returned).__name__}"
    raise ConfigError(
        f"`{name}` of Parts ({type(part).__name__}) returned {found}; it must return a tensor {shape}, as `x` is",
        "it maps each token's vector to a vector of the same size",
    )


def _check_distances(part: nn.Module, given: tuple[Tensor, Tensor], returned: object) -> None:
    """Raises ConfigError unless custom positions return Distances of a valid shape."""
    if not isinstance(returned, Distances):
        raise ConfigError(
            f"`positions` of Parts ({type(part).__name__}) returned {type(returned).__name__}, not Distances",
            "return pellucid.Distances(bias=...), with a tensor broadcastable to (B, H, L, M)",
        )
    L, M = map(len, given)
    shape = () if returned.bias is None else tuple(returned.bias.shape)
    if len(shape) > 4 or any(found not in (1, places) for found, places in zip(shape[::-1], (M, L), strict=False)):
        raise ConfigError(
            f"`positions` of Parts ({type(part).__name__}) returned a bias {shape} for {L} queries and {M} keys",
            f"return one that is broadcastable to (B, H, {L}, {M})",
        )


def _get_names(part: Factory) -> tuple[str, str]:
    """Returns a part's Python module and its name there; for a class in a function only its own name."""
    while isinstance(part, partial):
        part = part.func
    if isinstance(part, MethodType):  # Windowed.from_config, whose __qualname__ has the class that defines it
        owner = part.__self__ if isinstance(part.__self__, type) else type(part.__self__)
        return owner.__module__, f"{owner.__qualname__}.{part.__name__}".rpartition("<locals>.")[2]
    named = part if hasattr(part, "__qualname__") else type(part)
    return named.__module__, named.__qualname__.rpartition("<locals>.")[2]
