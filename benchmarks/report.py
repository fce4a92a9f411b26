"""What all benchmarks share: turns and their times, sums of measurements, what the JSON says, how errors are told."""

import argparse
import datetime
import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from pellucid.benchmark.machine import cpu_model
from pellucid.benchmark.machine import matrix_peak as matrix_peak
from pellucid.benchmark.times import format_times as format_times
from pellucid.benchmark.times import p95 as p95
from pellucid.benchmark.times import summarize_times as summarize_times
from pellucid.benchmark.times import summarize_times_with_p95 as summarize_times_with_p95
from pellucid.benchmark.times import time_call as time_call
from pellucid.errors import ConfigError, PellucidError


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


def take_turns(sides: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 0) -> dict[str, list[float]]:
    """Returns the seconds of each side in each round; first come `warm_up` rounds that do not count."""
    times = [{name: time_call(side) for name, side in sides.items()} for _ in range(warm_up + rounds)]
    return {name: [row[name] for row in times[warm_up:]] for name in sides}


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
