"""Repeated measurements of time, and what is told of them."""

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np


def seconds(call: Callable[[], object]) -> float:
    """Returns how long a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def spread(values: Sequence[float]) -> dict[str, float]:
    """Returns median, least and greatest of repeated measurements, to four digits."""
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def spread_with_p95(values: Sequence[float]) -> dict[str, float]:
    """Returns the spread of times, and the one that 95 in 100 stay under."""
    return spread(values) | {"p95": p95(values)}


def p95(values: Sequence[float]) -> float:
    """Returns what 95 in 100 stay under, to four digits."""
    return float(f"{float(np.percentile(values, 95)):.4g}")


def three_digits(number: float) -> str:
    """Returns a number for the reader: `1,480`, `74.8`, `0.0213`."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def in_words(values: dict[str, float]) -> str:
    """Returns a spread for the reader: `1,480 (1,410-1,700)`."""
    numbers = (values[name] for name in ("median", "min", "max"))
    median, least, greatest = map(three_digits, numbers)
    return f"{median} ({least}-{greatest})"
