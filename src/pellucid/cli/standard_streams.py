"""Makes standard input, output and error safe to use for the verbs, however the process was started."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

STDIN, STDOUT, STDERR = 0, 1, 2


class StandardOutputError(OSError):
    """Raised if standard output cannot be written, as on a full disk."""


@contextmanager
def standard_streams() -> Iterator[None]:
    """Ensures within its context that all three standard streams are open, and that no message can end a command.

    A closed stream becomes the null device, so that no file gets its number and no warning is mixed into the data. A
    character that the terminal's encoding lacks is written as its escape. A message that standard error cannot take
    (closed terminal, full disk) is lost, and the command continues.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    _open_what_is_closed()
    if _is_own(sys.stdout, STDOUT):
        sys.stdout = _watch(sys.stdout)
    if _is_own(sys.stderr, STDERR):
        sys.stderr = _watch(sys.stderr)
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        sys.stdin, sys.stdout, sys.stderr = before


def lose_standard_output() -> None:
    """Discards the buffered output of a failed standard output, so that it does not fail again when Python exits."""
    with suppress(OSError, ValueError):  # a test's stream has no file descriptor
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
    """Returns True if a stream is the process's stream, and was not replaced by a program or a test."""
    try:
        return isinstance(stream, io.TextIOWrapper) and stream.fileno() == number
    except (OSError, ValueError):
        return False


class _Watched(io.RawIOBase):
    """The file of a standard stream: a failed write raises StandardOutputError, on standard error it is ignored."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self.stream = stream  # kept, since a stream without a reference closes its file
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


def _watch(stream: TextIO) -> TextIO:
    assert isinstance(stream, io.TextIOWrapper)
    return io.TextIOWrapper(
        io.BufferedWriter(_Watched(stream)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.fileno() == STDERR,
        write_through=stream.write_through,
    )
