"""Processes chunks of a corpus in several processes and returns the results in the order of the text."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, TypeVar

from pellucid.process import count_cores
from pellucid.workers import Workers, can_fork

Work = Callable[[Any], Any]
Chunk = TypeVar("Chunk")

FEW = 3
"""Chunks up to which this process does the work: starting processes would take longer."""
MOST = 16
"""Processes at most: with more, the process that reads and writes is the bottleneck."""


BETWEEN = 30.0
"""Seconds between two progress messages."""


class ProgressReporter:
    """Logs from time to time the number of finished pairs."""

    def __init__(self, log_line: Callable[[str], object], what: str, done: int) -> None:
        """Logs the starting point of a resumed run, which has `done` pairs already."""
        self._say, self._what, self._last = log_line, what, time.monotonic()
        if done:
            log_line(f"{what}: resuming after pair {done:,}")

    def hear(self, done: int) -> None:
        """Logs the number of finished pairs if the last message is at least BETWEEN seconds ago."""
        if time.monotonic() - self._last >= BETWEEN:
            self._say(f"{self._what}: {done:,} pairs")
            self._last = time.monotonic()


def available_cores() -> int:
    """Returns the number of useful processes: one per core, at most MOST."""
    cores = count_cores()
    return min(cores, MOST)


def map_in_processes(
    chunks: Iterable[Chunk], make_worker: Callable[[], Work], workers: int | None = None
) -> Iterator[tuple[Chunk, Any]]:
    """Yields each chunk with its result, in order.

    A few chunks are read ahead.

    Args:
        make_worker: creates, in each process, the function that processes a chunk; pickled if processes cannot be
            forked.
        workers: number of worker processes; 1: this process only; None: one per core, if processes can be started
            without running the user's script a second time.

    Raises the errors of the work and of reading, after the results before them.
    """
    count = available_cores() if workers is None else workers
    stream = iter(chunks)
    ahead = list(islice(stream, FEW + 1))
    chunks = chain(ahead, stream)
    method = _method() if count > 1 and len(ahead) > FEW else None
    if method is None:
        work = make_worker()
        for chunk in chunks:
            yield chunk, work(chunk)
        return
    waiting: list[Chunk] = []

    def number() -> Iterator[tuple[int, list[Chunk]]]:
        for number, chunk in enumerate(chunks):
            waiting.append(chunk)
            yield number, [chunk]

    hint = "free memory and run the same command again to continue from the finished part"
    running: Workers[Chunk, Any] = Workers(count, partial(_make_answerer, make_worker), method, hint)
    try:
        for (result,) in running.answer_chunks(number(), lambda: True):
            yield waiting.pop(0), result
    finally:
        running.stop()


def _make_answerer(ready: Callable[[], Work]) -> Callable[[list[Any], int], list[Any]]:
    work = ready()
    return lambda chunks, _: [work(chunk) for chunk in chunks]


def _method() -> Literal["fork", "spawn"] | None:
    """Returns the start method of processes; None if a new process would run the user's script again."""
    if can_fork():
        return "fork"
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None) or Path(getattr(main, "__file__", None) or "").name
    return "spawn" if name.removesuffix(".exe").removesuffix(".py") in ("pellucid", "pellucid.__main__") else None
