"""What all benchmarks share: turns and their times, sums of measurements, what the JSON says, how errors are told."""

import argparse
import datetime
import json
import os
import platform
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pellucid.errors import ConfigError, PellucidError
from pellucid.model.fast.products import product

PEAK_SIZE = 1024


def circumstances(script: str, argv: Sequence[str] | None, packages: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the head of the JSON: the script with its arguments, the machine, and the versions of what is compared.

    Where `argv` is None, the arguments are those of the process, as for argparse.
    """
    argv = sys.argv[1:] if argv is None else argv
    return {
        "benchmark": Path(script).stem,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", f"benchmarks/{Path(script).name}", *argv]),
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count(), "threads": torch.get_num_threads()},
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("pellucid", "torch", *packages)},
        },
    }


def _version(package: str) -> str:
    """Returns the version of a package; of one that is used where it lies, that it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def cpu_model() -> str:
    """Returns the processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def seconds(call: Callable[[], object]) -> float:
    """Returns how long a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def take_turns(sides: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 0) -> dict[str, list[float]]:
    """Returns the seconds of each side in each round; first come `warm_up` rounds that do not count."""
    times = [{name: seconds(side) for name, side in sides.items()} for _ in range(warm_up + rounds)]
    return {name: [row[name] for row in times[warm_up:]] for name in sides}


def matrix_peak() -> float:
    """Returns the operations a second of a product of two 1,024 x 1,024 matrices in single precision, the best of 20.

    It is the faster of PyTorch's own product and of the one that Pellucid takes. No step of a model can do more than
    this share of 1: it is taken in each round, since machines change by the minute.
    """
    a, b, out = (torch.rand(PEAK_SIZE, PEAK_SIZE) for _ in range(3))
    sides = (lambda: torch.mm(a, b, out=out)), (lambda: product(a, b))
    return 2 * PEAK_SIZE**3 / min(seconds(side) for _ in range(10) for side in sides)


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


def in_words(values: dict[str, float]) -> str:
    """Returns a spread for the reader: `1,480 (1,410-1,700)`."""
    numbers = (values[name] for name in ("median", "min", "max"))
    median, least, greatest = (f"{number:,.0f}" if number >= 100 else f"{number:.3g}" for number in numbers)
    return f"{median} ({least}-{greatest})"


def positive(word: str) -> int:
    """Reads a number of rounds, steps, threads: what argparse calls for an option that may not be 0."""
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few: give 1 or more")
    return number


def program(name: str, package: str) -> str:
    """Returns where a program is. Raises ConfigError, which names Debian's package, where it is not on PATH."""
    found = shutil.which(name)
    if found is None:
        raise ConfigError(f"`{name}` is not on PATH: this runs the page's script", f"Debian: apt-get install {package}")
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """Yields a headless Chromium, the one that PELLUCID_BROWSER names or that of PATH, and closes it.

    Raises ConfigError where there is none, or nothing to drive it.
    """
    path = os.environ.get("PELLUCID_BROWSER") or program("chromium", "chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise ConfigError("playwright is not installed: it drives the browser", "give `make browser` once") from error

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@contextmanager
def refusals_in_words() -> Iterator[None]:
    """Ends the script with status 2, and with the error's message and hint, where a file or an option is refused."""
    try:
        yield
    except PellucidError as error:
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
        raise SystemExit(2) from None


def print_json(table: dict[str, Any]) -> None:
    """Prints the result on standard output."""
    print(json.dumps(table, indent=2, ensure_ascii=False))
