"""Lines in, lines out: what the verbs share that read a stream a stretch at a time."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TextIO

from pellucid.errors import DataError
from pellucid.weights.files import replacing

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
    """Standard output as UTF-8, or a file that is there only when all of it is.

    Raises DataError where no file can be written there.
    """
    if path == "-":
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield sys.stdout
        return
    target = Path(path).resolve()  # so that a link stays, and what it points to is replaced
    if target.is_dir() or not target.parent.is_dir():
        reason = "it is a folder" if target.is_dir() else f"there is no folder `{target.parent}`"
        raise DataError(f"cannot write to `{path}`: {reason}", "name a file in a folder that exists")
    if target.exists() and not target.is_file():  # a pipe or a device takes what comes: there is nothing to replace
        with target.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield file
