"""Standard input, output and error as the verbs may rely on them, whatever the process was started with."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

STDIN, STDOUT, STDERR = 0, 1, 2


class StandardOutputError(OSError):
    """Standard output takes no more, as on a full disk."""


@contextmanager
def standard_streams() -> Iterator[None]:
    """Has all three standard streams be there, and takes care that no word kills a command.

    One that was closed is the null device, so that no file gets its number and no warning ends up among the data. A
    character that the terminal's encoding lacks is written as its escape. What standard error does not take (its
    terminal has gone, its disk is full) is lost, and the command goes on.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    _open_what_is_closed()
    if _is_own(sys.stdout, STDOUT):
        sys.stdout = _watched(sys.stdout)
    if _is_own(sys.stderr, STDERR):
        sys.stderr = _watched(sys.stderr)
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        sys.stdin, sys.stdout, sys.stderr = before


def lose_standard_output() -> None:
    """Has what is still buffered for a standard output that takes nothing go nowhere, so that it does not fail again
    when Python exits."""
    with suppress(OSError, ValueError):  # one of a test's, which has no number
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _open_what_is_closed() -> None:
    for number in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
    # Python leaves None for a stream that was closed when it started, and print() to None is print() to stdout.
    for name, number, mode in (("stdin", STDIN, "r"), ("stdout", STDOUT, "w"), ("stderr", STDERR, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _is_own(stream: TextIO, number: int) -> bool:
    """Tells whether it is the process's own, and none that a program or a test has put into its place."""
    try:
        return isinstance(stream, io.TextIOWrapper) and stream.fileno() == number
    except (OSError, ValueError):
        return False


class _Watched(io.RawIOBase):
    """A standard stream's file, which says of itself that it failed, or, of standard error, keeps it to itself."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self.stream = stream  # which closes its file when nothing holds it
        # With PYTHONUNBUFFERED there is no buffer.
        self.raw = cast(io.RawIOBase, getattr(stream.buffer, "raw", stream.buffer))

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.raw.fileno()

    def isatty(self) -> bool:
        return self.raw.isatty()

    def write(self, data: object) -> int:
        content = cast(memoryview, data)
        try:
            return self.raw.write(content) or 0
        except OSError as error:
            if self.fileno() == STDERR:
                return len(content)
            if isinstance(error, BrokenPipeError):
                raise
            raise StandardOutputError(error.errno, error.strerror) from error


def _watched(stream: TextIO) -> TextIO:
    assert isinstance(stream, io.TextIOWrapper)
    return io.TextIOWrapper(
        io.BufferedWriter(_Watched(stream)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.fileno() == STDERR,
        write_through=stream.write_through,
    )
