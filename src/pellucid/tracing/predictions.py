"""Holds what a model said: the most probable tokens of each place that was written, and the check of classes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pellucid.errors import shown
from pellucid.tracing.search import ABOVE_ZERO
from pellucid.tracing.tokens import Token

MOST_PROBABLE = 5
"""The tokens that are kept of each place."""
SUM = 1e-3
"""The most that the probabilities of all classes may be from one together."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Holds what a model found probable at one place that was written."""

    log_prob: float
    """The log-probability of the token that was written there, in nats."""
    top: tuple[tuple[Token, float], ...]
    """The most probable tokens, the first most of all, each with its log-probability."""


def prediction_problems(predictions: Sequence[Prediction], rows: int) -> Iterator[str]:
    """Yields what is wrong with the predictions of so many places."""
    if len(predictions) != rows:
        yield f"has {len(predictions)} predictions, but `out` has {rows} tokens"
    for place, one in enumerate(predictions):
        values = [value for _, value in one.top]
        for value in (one.log_prob, *values):
            if not (math.isfinite(value) and value <= ABOVE_ZERO):
                yield f"has a prediction at place {place} with the log-probability {value}: no probability is above 1"
        if values != sorted(values, reverse=True):
            yield f"has predictions at place {place} that do not stand in the order of their probabilities"


def class_problems(classes: Mapping[str, float]) -> Iterator[str]:
    """Yields what is wrong with the probabilities of classes."""
    for label, probability in classes.items():
        if not 0 <= probability <= 1:
            yield f"gives the class `{shown(label)}` the probability {probability}"
    if classes and abs(sum(classes.values()) - 1) > SUM:
        yield f"gives its classes probabilities that sum to {sum(classes.values()):.4g}"
