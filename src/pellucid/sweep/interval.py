"""The mean over a few seeds with Student's t interval for the mean over many."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Mean:
    """A mean of values, one per seed. Their half width is None for a single value."""

    value: float
    half_width: float | None
    """The 95 % t interval is value ± half_width; it assumes that the values of many seeds are roughly normal."""
    count: int

    @classmethod
    def from_values(cls, values: Sequence[float]) -> Self:
        """Returns the mean of at least one value."""
        count = len(values)
        mean = math.fsum(values) / count
        if count == 1:
            return cls(mean, None, 1)
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
        return cls(mean, t_quantile(count - 1) * deviation / math.sqrt(count), count)


def t_quantile(degrees: int) -> float:
    """Returns the t for which 95 % of Student's distribution are between -t and t.

    Bisects the finite sums of the distribution for integer degrees of freedom: Abramowitz and Stegun 26.7.3 and 4.
    """
    low, high = 0.0, 13.0  # with one degree it is 12.706, with more it is less
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < CONFIDENCE else (low, middle)
    return high


def _within(t: float, degrees: int) -> float:
    """Returns the probability that |T| is at most t."""
    angle = math.atan(t / math.sqrt(degrees))
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + odd, degrees, 2):
        term *= math.cos(angle) ** 2 * (k - 1) / k
        total += term
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total
