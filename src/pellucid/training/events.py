"""The events that hooks are called with, and the actions that hooks may request.

A hook is a function of one event:

    def halve_on_a_plateau(event: pellucid.ValidationEvent) -> dict[str, float]:
        if not event.best:
            event.scale_rate(0.5)
        return {"perplexity": math.exp(event.loss)}

    run.on_validation(halve_on_a_plateau)

The numbers that it returns are added to that step's line of metrics.jsonl. A resumed run calls hooks again for the
steps since its last checkpoint and does not restore their state: exact resume holds if a hook's requests follow from
the event alone. Random numbers in a hook do not affect training, as each step has its own seed.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pellucid.errors import ConfigError
from pellucid.training.loss import get_callable_name

Numbers = Mapping[str, float] | None
TAKEN = frozenset({
    "event", "step", "loss", "learning_rate", "gradient_norm", "epoch", "tokens", "tokens_per_second", "seconds",
    "best", "best_step", "bleu", "accuracy", "chrf", "bits_per_byte",
})  # fmt: skip
"""The built-in names in a line of metrics.jsonl."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """The fields that all events have."""

    step: int
    """Optimizer steps so far."""
    loss: float
    """Mean over target tokens, for a classifier over texts, in nats: of this step or of this validation; for a
    checkpoint of the last step, and at the end of the validation of the run's model."""
    tokens: int
    """Target tokens trained on so far, without padding."""
    learning_rate: float
    """The learning rate of this step; the groups of a custom optimizer keep their ratio to the first one's."""


@dataclass(frozen=True, kw_only=True)
class _SteeringEvent(Event):
    stop: Callable[[], None] = field(repr=False, compare=False)
    """Ends the run after this step as if it were the last: validates, saves a checkpoint and chooses the model."""
    scale_rate: Callable[[float], None] = field(repr=False, compare=False)
    """Multiplies the learning rate of all later steps by a factor above 0, which is saved in checkpoints."""


@dataclass(frozen=True, kw_only=True)
class StepEvent(_SteeringEvent):
    """The event after each optimizer step."""

    gradient_norm: float
    """The norm before clipping."""


@dataclass(frozen=True, kw_only=True)
class ValidationEvent(_SteeringEvent):
    """The event after each validation. The model has the validated weights: the moving average, if there is one."""

    numbers: Mapping[str, float | None]
    """The scores of the validation: loss, bleu and others of the task."""
    best: bool
    """True for the best validation so far, whose weights have been published."""


@dataclass(frozen=True, kw_only=True)
class CheckpointEvent(Event):
    """The event after each saved checkpoint, except for checkpoints that are saved only because of an interruption."""

    folder: Path


@dataclass(frozen=True, kw_only=True)
class EndEvent(Event):
    """The event at the end, after the run's model is chosen."""

    chosen: str
    """The choice of the model: the best validation, or the mean of which checkpoints."""


_Event = TypeVar("_Event", bound=Event)


@dataclass
class Hooks:
    """Holds the functions to call, in their order. Events without functions cost nothing."""

    step: list[Callable[[StepEvent], Numbers]] = field(default_factory=list)
    validation: list[Callable[[ValidationEvent], Numbers]] = field(default_factory=list)
    checkpoint: list[Callable[[CheckpointEvent], Numbers]] = field(default_factory=list)
    end: list[Callable[[EndEvent], Numbers]] = field(default_factory=list)


_Hook = TypeVar("_Hook")


def check_hook(hook: _Hook) -> _Hook:
    """Returns a hook. Raises ConfigError if it cannot be called."""
    if not callable(hook):
        raise ConfigError(f"a hook is a {type(hook).__name__}, which cannot be called", "pass a function (event)")
    return hook


def call(hooks: Iterable[Callable[[_Event], Numbers]], event: _Event) -> dict[str, float]:
    """Calls hooks with an event; merges the numbers that they return.

    Raises ConfigError if a hook returns something else, or a number whose name the line of the metrics already has.
    """
    found: dict[str, float] = {}
    for hook in hooks:
        returned = hook(event)
        if returned is None:
            continue
        if not isinstance(returned, Mapping):
            raise ConfigError(
                f"the hook `{get_callable_name(hook)}` returned {type(returned).__name__}",
                "return a dict of numbers for metrics.jsonl, or nothing",
            )
        for name, value in returned.items():
            if not isinstance(name, str):
                raise ConfigError(
                    f"the hook `{get_callable_name(hook)}` returned {name!r} as a name",
                    "return a dict of numbers by name",
                )
            if name in TAKEN or name in found:
                raise ConfigError(
                    f"the hook `{get_callable_name(hook)}` returned `{name}`, which the line of metrics.jsonl "
                    "already has",
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
        f"`{name}` of the hook `{get_callable_name(hook)}` is {type(value).__name__}, not a number",
        "return a dict of numbers for metrics.jsonl, or nothing",
    )


def check_factor(factor: float) -> float:
    """Returns a factor of the learning rate. Raises ConfigError if it is not a finite number above 0."""
    if not 0 < factor < math.inf:
        raise ConfigError(f"`factor` ({factor}) of a learning rate must be a finite number above 0")
    return float(factor)
