"""Parts of your own: modules that stand in a model where Pellucid's would.

    class Windowed(pellucid.MultiHeadAttention): ...

    model = pellucid.Transformer(config, parts=pellucid.Parts(attention=Windowed.from_config))

docs/guides/your-own-parts.md shows each of them at work.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from types import MethodType
from typing import Any

from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError

Factory = Callable[[ModelConfig], nn.Module]

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
    """Makers of modules, each called with the model's config for every place; None: Pellucid's own.

    A part is called as the module in whose place it stands. `pellucid.Linear` and attention that derives from
    `MultiHeadAttention` begin as everywhere in a model; whatever else a part holds keeps what its constructor gave it.

    Raises ConfigError for what cannot make modules.
    """

    attention: Factory | None = None
    """Self- and cross-attention: attention(x, memory, mask=..., cache=..., distances=...), (B, L, D) -> (B, L, D).
    `memory` (B, M, D) is None for self-attention."""
    feed_forward: Factory | None = None
    """The network behind the attention: feed_forward(x), (B, L, D) -> (B, L, D)."""
    norm: Factory | None = None
    """Every norm of the residual stream: norm(x), (B, L, D) -> (B, L, D)."""
    positions: Factory | None = None
    """In place of `config.positions`: positions(query_positions, key_positions), (L,), (M,) -> Distances, for each
    stack; or an AddedPositions, for each embedding."""
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
                    f"`{name}` of Parts is a {kind} that is made already; it must make a new module for each place",
                    f"write Parts({name}={kind}), or Parts({name}=lambda config: {kind}(...))",
                )
            if given is not None and not callable(given):
                raise ConfigError(
                    f"`{name}` of Parts is {given!r}; it must be None or a callable (config) -> nn.Module",
                    "give a class whose constructor takes the config, or a function of it",
                )

    def make(self, name: str, config: ModelConfig, default: Factory) -> nn.Module:
        """Returns a new module: of the part `name` where there is one, else of the `default`.

        Raises ConfigError where a part makes something that is not a module, or one that a model cannot call; when it
        is called, where it does not return what its place asks for.
        """
        factory: Factory | None = getattr(self, name)
        if factory is None:
            return default(config)
        if wrong := _refused(factory, "config"):
            from_config = hasattr(factory, "from_config")
            kind = _names_of(factory)[1]
            raise ConfigError(
                f"`{name}` of Parts ({self.names[name]}) cannot be called with the config alone: {wrong}",
                f"write Parts({name}={kind}.from_config)" if from_config else "let it take the model's config",
            )
        module = factory(config)
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"`{name}` of Parts ({self.names[name]}) made a {type(module).__name__}; it must make a torch.nn.Module"
            )
        if wrong := _refused(module.forward, CALLED_WITH[name]):
            raise ConfigError(
                f"`{name}` of Parts ({self.names[name]}) cannot be called as {name}({CALLED_WITH[name]}): {wrong}",
                f"let its forward() take {CALLED_WITH[name].replace('=', '')}",
            )
        if name != "positions":  # which return no states: model/relative.py looks at theirs
            module.register_forward_hook(partial(_check_states, name))
        return module

    @property
    def names(self) -> dict[str, str]:
        """Names each part that is given as Python does: {"attention": "my_parts.Windowed"}."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: ".".join(_names_of(part)) for name, part in given.items() if part is not None}

    def fits(self, name: str, recorded: str) -> bool:
        """Tells whether a part is the one that was `recorded` by its name.

        Its module may be another one: what was written in a script is called `__main__` there.
        """
        part = getattr(self, name)
        return part is not None and f".{recorded}".endswith(f".{_names_of(part)[1]}")


OURS = Parts()
"""Pellucid's own modules everywhere."""


def parts_or_ours(parts: Parts | None) -> Parts:
    """Returns `parts`, or Pellucid's own where there are none. Raises ConfigError for what is not a Parts."""
    if parts is not None and not isinstance(parts, Parts):
        raise ConfigError(
            f"`parts` is a {type(parts).__name__}, not a pellucid.Parts", "write parts=pellucid.Parts(attention=...)"
        )
    return OURS if parts is None else parts


def _refused(call: Callable[..., Any], arguments: str) -> str:
    """Returns why a call with these arguments, `x, mask=`, would be refused; empty where none is known."""
    names = arguments.split(", ")
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # of a class or a function that is not Python's
        return ""
    try:
        signature.bind(*(n for n in names if n[-1] != "="), **{n[:-1]: None for n in names if n[-1] == "="})
    except TypeError as error:
        return str(error)
    return ""


def _check_states(name: str, part: nn.Module, given: tuple[Any, ...], returned: object) -> None:
    """Raises ConfigError where a part returns something else than a tensor of the shape of its first argument."""
    shape = tuple(given[0].shape)
    if isinstance(returned, Tensor) and tuple(returned.shape) == shape:
        return
    found = f"a tensor {tuple(returned.shape)}" if isinstance(returned, Tensor) else f"{type(returned).__name__}"
    raise ConfigError(
        f"`{name}` of Parts ({type(part).__name__}) returned {found}; it must return a tensor {shape}, as `x` is",
        "each token's vector goes in and comes out",
    )


def _names_of(part: Factory) -> tuple[str, str]:
    """Returns a part's module and its name there; a class in a function by its own name alone."""
    while isinstance(part, partial):
        part = part.func
    if isinstance(part, MethodType):  # Windowed.from_config, whose own name is that of the class that defines it
        owner = part.__self__ if isinstance(part.__self__, type) else type(part.__self__)
        return owner.__module__, f"{owner.__qualname__}.{part.__name__}".rpartition("<locals>.")[2]
    named = part if hasattr(part, "__qualname__") else type(part)
    return named.__module__, named.__qualname__.rpartition("<locals>.")[2]
