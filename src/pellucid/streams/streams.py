"""Lines in, lines out: what the verbs share that answer each line of a stream with one of their own."""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeVar

from pellucid.errors import ConfigError, shown
from pellucid.files.writing import is_replaceable, output, writable
from pellucid.streams.partial_output import Countable, partial_output
from pellucid.streams.progress import LineProgress
from pellucid.streams.source import LineSource

Line = TypeVar("Line")

STRETCH = 2048  # lines that go together: enough to sort by length, few enough to see output soon
FIRST_STRETCH = 64


@dataclass(frozen=True)
class Stream:
    """Where lines come from and their answers go."""

    input: str = "-"
    output: str = "-"
    on_bad_utf8: str = "error"
    """What becomes of a line that is not UTF-8: "error" ends all, "replace" reads U+FFFD for bad bytes, "skip" gives an
    empty line for it."""
    fresh: bool = False
    """Whether to begin anew where a stopped command has left the beginning of the output."""
    text: str | None = None
    """The lines themselves, in place of an input."""


def text_stream(text: str | None, input: str, output: str, on_bad_utf8: str, fresh: bool) -> Stream:
    """Returns the stream of a command that takes a text as an argument, or lines; `-` as a text is standard input.

    Raises ConfigError where both are given.
    """
    if text is not None and input != "-":
        raise ConfigError(f"a text is given, and `--input {shown(Path(input))}`", "leave one of them out")
    return Stream(input, output, on_bad_utf8, fresh, None if text == "-" else text)


class Source(Countable, Protocol[Line]):
    """Where lines, or pairs of them, are taken from: a LineSource, a PairSource."""

    @property
    def is_regular(self) -> bool: ...

    @property
    def share(self) -> float | None: ...

    def take(self, most: int) -> list[Line | None]: ...


@contextmanager
def opened(stream: Stream) -> Iterator[LineSource]:
    """The lines of the input; what can be refused of both ends is refused before anything is computed.

    Raises DataError where the input cannot be read or the output not be written; ConfigError where both are one file.
    """
    with closing(LineSource(stream.input, stream.on_bad_utf8, stream.text)) as source:
        if stream.output != "-":
            writable(stream.output)
        if _is_output_too(source, stream.output):
            raise ConfigError(
                f"the input is the output: `{shown(Path(stream.output))}`", "name another file, and move it afterwards"
            )
        yield source


def answer_lines(
    stream: Stream,
    source: Source[Line],
    answer: Callable[[list[Line], int], Iterable[str]],
    *,
    command: Callable[[], Mapping[str, Any]],
    nothing: tuple[Line, str],
) -> None:
    """Writes the answer of each line, in their order.

    Args:
        answer: of a stretch of lines and the number of lines before it. An answer depends on its line and its place,
            and not on where stretches begin.
        nothing: the line that stands for one that is left out, and what is written for it.
        command: makes a table of what decides the answers beside the lines: an output that was stopped goes on under
            the same one alone.
    """
    with ExitStack() as stack:
        progress = stack.enter_context(LineProgress(shown=_is_waited_for(stream, source)))
        if stream.output == "-" or not is_replaceable(stream.output):
            write = stack.enter_context(_written_through(stream.output))
        else:
            settings = {**command(), "on_bad_utf8": stream.on_bad_utf8}
            partial = partial_output(writable(stream.output), settings, source, fresh=stream.fresh, say=_say)
            write = stack.enter_context(partial).write
        progress.begin(source.number, source.share)
        size, number = FIRST_STRETCH, source.number
        while lines := source.take(size):
            answers = answer([nothing[0] if line is None else line for line in lines], number)
            both = zip(lines, answers, strict=True)
            write("".join(f"{nothing[1] if line is None else found}\n" for line, found in both))
            size, number = STRETCH, number + len(lines)
            progress.update(number, source.share)


def _is_output_too(source: LineSource, output: str) -> bool:
    """Whether an output would replace its own input while that is read."""
    if source.status is None or not source.is_regular or not source.status.st_size:
        return False
    try:
        return os.path.samestat(source.status, os.fstat(sys.stdout.fileno()) if output == "-" else os.stat(output))
    except (OSError, ValueError):
        return False


def _is_waited_for(stream: Stream, source: Source[Any]) -> bool:
    """Whether somebody waits for the end, and reads neither the answers meanwhile nor gives the lines one by one."""
    if stream.output == "-":
        return source.is_regular and not sys.stdout.isatty()
    return source.is_regular or not (stream.input == "-" and sys.stdin.isatty())


@contextmanager
def _written_through(path: str) -> Iterator[Callable[[str], object]]:
    with writer(path) as file:

        def write(text: str) -> None:
            file.write(text)
            file.flush()

        yield write


def _say(text: str) -> None:
    print(text, file=sys.stderr)


@contextmanager
def writer(path: str) -> Iterator[TextIO]:
    """Standard output as UTF-8, or what output() makes of a file, device or pipe.

    Raises DataError where nothing can be written there.
    """
    if path == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
        yield sys.stdout
        return
    with output(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="\n") as text:
        yield text
