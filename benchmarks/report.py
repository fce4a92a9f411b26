"""What a benchmark's JSON says: when, by which command and on what it was measured; and sums of measurements."""

import datetime
import json
import os
import platform
import shlex
import statistics
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def circumstances(script: str, argv: Sequence[str], packages: Sequence[str] = ()) -> dict[str, Any]:
    """The head of the JSON: the script with its arguments, the machine, and the versions of what is compared."""
    return {
        "benchmark": Path(script).stem,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", f"benchmarks/{Path(script).name}", *argv]),
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count(), "threads": torch.get_num_threads()},
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("pellucid", "torch", *packages)},
        },
    }


def cpu_model() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and greatest of repeated measurements, to four digits."""
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def in_words(values: dict[str, float]) -> str:
    """A spread for the reader: `1,480 (1,410-1,700)`."""
    numbers = (values[name] for name in ("median", "min", "max"))
    median, least, greatest = (f"{number:,.0f}" if number >= 100 else f"{number:.3g}" for number in numbers)
    return f"{median} ({least}-{greatest})"


def print_json(table: dict[str, Any]) -> None:
    """The result, on standard output."""
    print(json.dumps(table, indent=2, ensure_ascii=False))
