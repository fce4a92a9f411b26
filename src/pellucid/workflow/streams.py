"""Lines in, lines out: what the verbs share that read a stream a stretch at a time."""

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TextIO

from pellucid.weights.files import output

STRETCH = 2048  # lines that go together: enough to sort by length, few enough to see output soon
FIRST_STRETCH = 64


def stretches(lines: Iterable[str], at_once: bool) -> Iterator[list[str]]:
    """The lines in stretches; `at_once`: each by itself, for somebody who waits for an answer."""
    stream = iter(lines)
    size = 1 if at_once else FIRST_STRETCH
    while stretch := list(islice(stream, size)):
        yield stretch
        size = 1 if at_once else STRETCH


@contextmanager
def writer(path: str) -> Iterator[TextIO]:
    """Standard output as UTF-8, or what output() makes of a file, device or pipe.

    Raises DataError where nothing can be written there.
    """
    if path == "-":
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield sys.stdout
        return
    with output(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="\n") as text:
        yield text
