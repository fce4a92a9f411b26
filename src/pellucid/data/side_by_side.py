"""Stretches of a corpus worked on by several processes, their results in the order of the text."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, TypeVar

from pellucid.workers import Workers, may_be_copied

Work = Callable[[Any], Any]
Stretch = TypeVar("Stretch")

FEW = 3
"""Stretches that are worked on here: to start processes would take longer."""
MOST = 16
"""Processes at most: beyond it the one that reads and writes is what they wait for."""


BETWEEN = 30.0
"""Seconds between two words on how far the work is."""


class Told:
    """Says from time to time how many pairs are done."""

    def __init__(self, say: Callable[[str], object], what: str, done: int) -> None:
        """Says where work is gone on with, if it is: `done` pairs are there."""
        self._say, self._what, self._last = say, what, time.monotonic()
        if done:
            say(f"{what}: going on behind pair {done:,}")

    def hear(self, done: int) -> None:
        """Says that so many are done, where nothing was said for a while."""
        if time.monotonic() - self._last >= BETWEEN:
            self._say(f"{self._what}: {done:,} pairs")
            self._last = time.monotonic()


def available_cores() -> int:
    """Returns how many processes are of use here: a core each, at most MOST."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST)


def worked_on(
    stretches: Iterable[Stretch], ready: Callable[[], Work], workers: int | None = None
) -> Iterator[tuple[Stretch, Any]]:
    """Yields each stretch with what becomes of it, in their order, whoever has worked on it.

    A few stretches are read ahead of what is yielded.

    Args:
        ready: makes, in each process, what works on a stretch: pickled where processes cannot be copies of this one.
        workers: processes beside this one; 1: none; None: one a core, where processes can be started without a script
            being run a second time.

    Raises what the work raises, and what reading raises, after what came before it.
    """
    count = available_cores() if workers is None else workers
    stream = iter(stretches)
    ahead = list(islice(stream, FEW + 1))
    stretches = chain(ahead, stream)
    method = _method() if count > 1 and len(ahead) > FEW else None
    if method is None:
        work = ready()
        for stretch in stretches:
            yield stretch, work(stretch)
        return
    waiting: list[Stretch] = []

    def numbered() -> Iterator[tuple[int, list[Stretch]]]:
        for number, stretch in enumerate(stretches):
            waiting.append(stretch)
            yield number, [stretch]

    hint = "make room in memory, and repeat the command: it goes on from what is there"
    running: Workers[Stretch, Any] = Workers(count, partial(_answering, ready), method, hint)
    try:
        for (result,) in running.answered(numbered(), lambda: True):
            yield waiting.pop(0), result
    finally:
        running.stop()


def _answering(ready: Callable[[], Work]) -> Callable[[list[Any], int], list[Any]]:
    work = ready()
    return lambda stretches, _: [work(stretch) for stretch in stretches]


def _method() -> Literal["fork", "spawn"] | None:
    """Returns how processes can be started; None where a new one would run the user's script again."""
    if may_be_copied():
        return "fork"
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None) or Path(getattr(main, "__file__", None) or "").name
    return "spawn" if name.removesuffix(".exe").removesuffix(".py") in ("pellucid", "pellucid.__main__") else None
