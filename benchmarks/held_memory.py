"""Watches what the processes of a command hold in memory, for benchmarks that let one run for long (Linux alone)."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST_GROWTH = 1.02


def watch(process: subprocess.Popen[bytes], minutes: float) -> dict[str, Any]:
    """Looks at a command and the processes that it starts for so long, or to its end.

    Returns: the `minutes`, and of each process of the whole time the most that it held in each third, and how many
    times that of the second third the last one is.
    """
    started, held = time.monotonic(), dict[int, list[tuple[float, int]]]()
    while (passed := time.monotonic() - started) < 60 * minutes and process.poll() is None:
        for number in (process.pid, *children(process.pid)):
            if size := resident(number):
                held.setdefault(number, []).append((passed, size))
        time.sleep(min(1.0, 60 * minutes / 300))
    end = max(seconds for looks in held.values() for seconds, _ in looks)
    table: dict[str, dict[str, Any]] = {}
    for number, looks in held.items():
        thirds = [[size for seconds, size in looks if part <= 3 * seconds / end <= part + 1] for part in range(3)]
        if all(thirds):
            who = "command" if number == process.pid else f"process {len(table)}"
            peaks = [max(sizes) / 2**20 for sizes in thirds]
            table[who] = {"MiB in each third": [round(p, 1) for p in peaks], "growth": round(peaks[2] / peaks[1], 4)}
    return {"minutes": round(end / 60, 2), "processes": table}


def is_flat(found: dict[str, Any]) -> bool:
    """Returns whether what `watch` returned is of processes that hold no more and more."""
    table: dict[str, dict[str, Any]] = found["processes"]
    return bool(table) and all(each["growth"] <= MOST_GROWTH for each in table.values())


def children(parent: int) -> Iterator[int]:
    """Yields the processes that another has started."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(path.parent.name)


def resident(process: int) -> int:
    """Returns the bytes that a process holds in memory; 0 where it has gone."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
