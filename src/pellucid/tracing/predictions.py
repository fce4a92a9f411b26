"""Holds a model's predictions: the most probable tokens per output position, and the check of class probabilities."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pellucid.errors import format_value
from pellucid.tracing.search import ABOVE_ZERO
from pellucid.tracing.tokens import Token

MOST_PROBABLE = 5
"""The number of tokens kept per position."""
SUM = 1e-3
"""The largest deviation from one of the sum of all class probabilities."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Holds a model's prediction at one output position."""

    log_prob: float
    """The log-probability of the actual token at this position, in nats."""
    top: tuple[tuple[Token, float], ...]
    """The most probable tokens, best first, each with its log-probability."""


def prediction_problems(predictions: Sequence[Prediction], rows: int) -> Iterator[str]:
    """Yields the inconsistencies of predictions that should have `rows` entries."""
    if len(predictions) != rows:
        yield f"has {len(predictions)} predictions, but `out` has {rows} tokens"
    for place, one in enumerate(predictions):
        values = [value for _, value in one.top]
        for value in (one.log_prob, *values):
            if not (math.isfinite(value) and value <= ABOVE_ZERO):
                yield f"has a prediction at position {place} with the log-probability {value}, which is above 0"
        if values != sorted(values, reverse=True):
            yield f"has predictions at position {place} that are not in the order of their probabilities"


def class_problems(classes: Mapping[str, float]) -> Iterator[str]:
    """Yields the inconsistencies of class probabilities."""
    for label, probability in classes.items():
        if not 0 <= probability <= 1:
            yield f"has the probability {probability} for the class `{format_value(label)}`"
    if classes and abs(sum(classes.values()) - 1) > SUM:
        yield f"has class probabilities that sum to {sum(classes.values()):.4g}"
