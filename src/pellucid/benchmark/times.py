"""Repeated time measurements and their summaries."""

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np


def time_call(call: Callable[[], object]) -> float:
    """Returns the seconds that a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def summarize_times(values: Sequence[float]) -> dict[str, float]:
    """Returns median, minimum and maximum of repeated measurements, to four digits."""
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def summarize_times_with_p95(values: Sequence[float]) -> dict[str, float]:
    """Returns the median, minimum, maximum and 95th percentile of times."""
    return summarize_times(values) | {"p95": p95(values)}


def p95(values: Sequence[float]) -> float:
    """Returns the 95th percentile, to four digits."""
    return float(f"{float(np.percentile(values, 95)):.4g}")


def three_digits(number: float) -> str:
    """Returns a number for the reader: `1,480`, `74.8`, `0.0213`."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def format_times(values: dict[str, float]) -> str:
    """Returns median and range for the reader: `1,480 (1,410-1,700)`."""
    numbers = (values[name] for name in ("median", "min", "max"))
    median, least, greatest = map(three_digits, numbers)
    return f"{median} ({least}-{greatest})"
