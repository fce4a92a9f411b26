"""The events that hooks are told of, and what they may ask of a run.

A hook is a function of one event:

    def halve_on_a_plateau(event: pellucid.ValidationEvent) -> dict[str, float]:
        if not event.best:
            event.scale_rate(0.5)
        return {"perplexity": math.exp(event.loss)}

    run.on_validation(halve_on_a_plateau)

The numbers that it returns go into that step's line of metrics.jsonl. A run that is resumed calls hooks again for the
steps since its last checkpoint, and knows nothing of what they keep: what they ask for is part of exact resume as far
as it follows from the event alone. Random numbers that a hook draws change nothing, as each step has its own seed.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pellucid.errors import ConfigError
from pellucid.training.loss import name_of

Numbers = Mapping[str, float] | None
TAKEN = frozenset({
    "event", "step", "loss", "learning_rate", "gradient_norm", "epoch", "tokens", "tokens_per_second", "seconds",
    "best", "best_step", "bleu", "accuracy", "chrf", "bits_per_byte",
})  # fmt: skip
"""Names that a line of metrics.jsonl has of its own."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Says where a run stands; each kind of event has more."""

    step: int
    """Optimizer steps so far."""
    loss: float
    """Mean over target tokens in nats, of a classifier over texts: of this step, of this validation; of a checkpoint
    that of the last step, and at the end that of the validation of the run's model."""
    tokens: int
    """Target tokens trained on so far, without padding."""
    learning_rate: float
    """The rate of this step; groups of an optimizer of one's own keep their ratio to the first one's."""


@dataclass(frozen=True, kw_only=True)
class _SteeringEvent(Event):
    stop: Callable[[], None] = field(repr=False, compare=False)
    """Ends the run after this step as if it were the last: it is validated and saved, and the model is chosen."""
    scale_rate: Callable[[float], None] = field(repr=False, compare=False)
    """Multiplies the learning rate of all later steps by a factor above 0, which checkpoints keep."""


@dataclass(frozen=True, kw_only=True)
class StepEvent(_SteeringEvent):
    """Comes after each optimizer step."""

    gradient_norm: float
    """Before it is clipped."""


@dataclass(frozen=True, kw_only=True)
class ValidationEvent(_SteeringEvent):
    """Comes after each validation. The model still is what was validated: its moving average, where there is one."""

    numbers: Mapping[str, float | None]
    """The scores of the validation: loss, bleu and others that the task has."""
    best: bool
    """True for the best validation so far, whose weights have been published."""


@dataclass(frozen=True, kw_only=True)
class CheckpointEvent(Event):
    """Comes after each checkpoint that the disk has taken, but for those that an interruption alone is the cause of."""

    folder: Path


@dataclass(frozen=True, kw_only=True)
class EndEvent(Event):
    """Comes once at the end, when the run's model has been chosen."""

    chosen: str
    """The choice of the model: the best validation, or the mean of which checkpoints."""


_Event = TypeVar("_Event", bound=Event)


@dataclass
class Hooks:
    """Holds the functions to call, in their order. Nothing is paid where there are none."""

    step: list[Callable[[StepEvent], Numbers]] = field(default_factory=list)
    validation: list[Callable[[ValidationEvent], Numbers]] = field(default_factory=list)
    checkpoint: list[Callable[[CheckpointEvent], Numbers]] = field(default_factory=list)
    end: list[Callable[[EndEvent], Numbers]] = field(default_factory=list)


_Hook = TypeVar("_Hook")


def check_hook(hook: _Hook) -> _Hook:
    """Returns a hook. Raises ConfigError where it cannot be called."""
    if not callable(hook):
        raise ConfigError(f"a hook is a {type(hook).__name__}, which cannot be called", "hand over a function (event)")
    return hook


def call(hooks: Iterable[Callable[[_Event], Numbers]], event: _Event) -> dict[str, float]:
    """Calls hooks with an event; returns the numbers that they have returned.

    Raises ConfigError where a hook returns something else, or a number whose name the line of the metrics has.
    """
    found: dict[str, float] = {}
    for hook in hooks:
        returned = hook(event)
        if returned is None:
            continue
        if not isinstance(returned, Mapping):
            raise ConfigError(
                f"the hook `{name_of(hook)}` returned {type(returned).__name__}",
                "return a dict of numbers for metrics.jsonl, or nothing",
            )
        for name, value in returned.items():
            if not isinstance(name, str):
                raise ConfigError(
                    f"the hook `{name_of(hook)}` returned {name!r} for a name", "return a dict of numbers by name"
                )
            if name in TAKEN or name in found:
                raise ConfigError(
                    f"the hook `{name_of(hook)}` returned `{name}`, which the line of metrics.jsonl has already",
                    "choose another name",
                )
            found[name] = _number(value, name, hook)
    return found


def _number(value: object, name: str, hook: object) -> float:
    if isinstance(value, int | float):
        return value
    try:
        if not isinstance(value, str):
            return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        pass
    raise ConfigError(
        f"`{name}` of the hook `{name_of(hook)}` is {type(value).__name__}, not a number",
        "return a dict of numbers for metrics.jsonl, or nothing",
    )


def check_factor(factor: float) -> float:
    """Returns what a learning rate is to be multiplied by. Raises ConfigError for what it cannot be."""
    if not 0 < factor < math.inf:
        raise ConfigError(f"`factor` ({factor}) of a learning rate must be a finite number above 0")
    return float(factor)
