"""Lines in, lines out: the shared code of the commands that produce one output line per input line of a stream."""

import hashlib
import io
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Generic, Protocol, TextIO, TypeVar

from pellucid.data.chunks import ChunkSizes
from pellucid.errors import ConfigError, format_value
from pellucid.files.writing import check_writable, is_replaceable, open_output_file
from pellucid.streams.partial_output import PositionedSource, StreamPosition, partial_output
from pellucid.streams.progress import LineProgress
from pellucid.streams.source import LineSource, check_is_text
from pellucid.terminal import log_line

if TYPE_CHECKING:
    from pellucid.tasks.task import TextModel

Line = TypeVar("Line")

WITHOUT_EFFECT = ("batch_tokens",)
"""Settings that change how answers are computed, but not the answers: they can be lowered to save memory."""


@dataclass(frozen=True)
class LineStream:
    """The input and the output of a stream of lines."""

    input: str = "-"
    output: str = "-"
    on_bad_utf8: str = "error"
    """The handling of a line that is not UTF-8: "error" stops, "replace" reads U+FFFD for invalid bytes, "skip"
    replaces the line with an empty one."""
    fresh: bool = False
    """If True, discards the partial output of an interrupted command."""
    text: str | None = None
    """The lines as a string, instead of an input."""


def text_stream(text: str | None, input: str, output: str, on_bad_utf8: str, fresh: bool) -> LineStream:
    """Returns the stream of a command that takes a text as an argument, or lines; the text `-` means standard input.

    Raises ConfigError if both are given, DataError if the text is the name of a file.
    """
    check_is_text(text)
    if text is not None and input != "-":
        raise ConfigError(f"a text is given, and `input={format_value(Path(input))}`", "leave one of them out")
    return LineStream(input, output, on_bad_utf8, fresh, None if text == "-" else text)


class LineReader(PositionedSource, Protocol[Line]):
    """A source of lines, or of pairs of lines: a LineSource, a PairSource."""

    @property
    def is_regular(self) -> bool: ...

    @property
    def share(self) -> float | None: ...

    @property
    def is_ready(self) -> bool: ...

    def take(self, most: int) -> list[Line | None]: ...


@contextmanager
def open_input(stream: LineStream) -> Iterator[LineSource]:
    """Opens the lines of the input, and checks input and output before anything is computed.

    Raises DataError if the input cannot be read or the output cannot be written, ConfigError if both are the same file.
    """
    with closing(LineSource(stream.input, stream.on_bad_utf8, stream.text)) as source:
        if stream.output != "-":
            check_writable(stream.output)
        if _is_output_too(source, stream.output):
            raise ConfigError(
                f"the input is the output: `{format_value(Path(stream.output))}`",
                "name another file, and move it afterwards",
            )
        yield source


class OutputWriter(Generic[Line]):
    """A stream in progress: yields chunks of lines in order, and writes the answers of each chunk.

        for place, lines in answers:
            answers.write(line.upper() for line in lines)

    `place` is the number of lines before the chunk. An answer depends on its line and its index, and not on the
    boundaries of chunks. Several chunks may be yielded before the first one is written.
    """

    def __init__(
        self,
        source: LineReader[Line],
        write: Callable[[str, StreamPosition], object],
        progress: LineProgress,
        nothing: tuple[Line, str],
        workers: int,
        chunk: int | None = None,
    ) -> None:
        """Begins after the lines that have been taken from the source; see `open_output_stream`."""
        self._source = source
        self._write = write
        self._progress = progress
        self._nothing = nothing
        self._sizes = ChunkSizes(workers)
        self._chunk = chunk
        self._given: deque[tuple[list[Line | None], StreamPosition, float | None]] = deque()
        self._first = source.number
        progress.begin(source.number, source.share)

    def __iter__(self) -> Iterator[tuple[int, list[Line]]]:
        while lines := self._source.take(self._next_size()):
            reached, share = StreamPosition.from_source(self._source), self._source.share
            self._given.append((lines, reached, share))
            self._sizes.begin(len(lines))
            yield reached.number - len(lines), [self._nothing[0] if line is None else line for line in lines]

    def _next_size(self) -> int:
        """Returns the number of lines of the next chunk; with a fixed chunk size, the remaining lines of the chunk."""
        if self._chunk is not None:
            return self._chunk - self._source.number % self._chunk
        return self._sizes.choose(self._source.share, self._source.number - self._first)

    def is_ready(self) -> bool:
        """Returns True if the next chunk is available without waiting."""
        return self._source.is_ready

    def write(self, answers: Iterable[str]) -> None:
        """Writes the answers of the oldest chunk that is not written yet, one per line."""
        lines, reached, share = self._given.popleft()
        self._sizes.end()
        both = zip(lines, answers, strict=True)
        self._write("".join(f"{self._nothing[1] if line is None else answer}\n" for line, answer in both), reached)
        self._progress.update(reached.number, share)


@contextmanager
def open_output_stream(
    stream: LineStream,
    source: LineReader[Line],
    *,
    command: Callable[[], Mapping[str, Any]],
    nothing: tuple[Line, str],
    workers: int = 1,
    chunk: int | None = None,
) -> Iterator[OutputWriter[Line]]:
    """Opens the output of a stream. The output file appears when the context exits normally; after an error the partial
    output is kept and can be resumed.

    Args:
        command: returns the settings that determine the answers in addition to the lines: an interrupted output is
            resumed only with equal settings.
        nothing: the line that replaces a skipped one, and the output written for it.
        workers: the number of parallel workers.
        chunk: lines that are computed together, with one worker and a file, also after a resume: the last digits of a
            score depend on the batch. None: chosen for short waiting times.
    """
    with LineProgress(shown=_is_waited_for(stream, source)) as progress:
        if stream.output == "-" or not is_replaceable(stream.output):
            with writer(stream.output) as file:

                def write(text: str, _: StreamPosition) -> None:
                    file.write(text)
                    file.flush()

                yield OutputWriter(source, write, progress, nothing, workers, chunk)
        else:
            settings = {**command(), "on_bad_utf8": stream.on_bad_utf8}
            target = check_writable(stream.output)
            with partial_output(target, settings, source, fresh=stream.fresh, log_line=log_line) as partial:
                yield OutputWriter(source, partial.write, progress, nothing, workers, chunk)


def fingerprint_request(verb: str, task: "TextModel[Any]", settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that determine the answers of a command, as JSON values: equal tables and lines result in
    equal answers.
    """
    digest = hashlib.sha256()
    device = task.add_weights(digest)
    with TemporaryDirectory(prefix="pellucid-") as folder:
        table = task.tokenizers.save(Path(folder))  # contains the digests of the files
    digest.update(json.dumps(table, sort_keys=True, default=str).encode())
    effective = {name: value for name, value in settings.items() if value is not None and name not in WITHOUT_EFFECT}
    found = {"verb": verb, "model": digest.hexdigest(), "device": device, **effective}
    as_stored: dict[str, Any] = json.loads(json.dumps(found))  # with lists, not tuples
    return as_stored


def _is_output_too(source: LineSource, output: str) -> bool:
    """Returns True if an output would replace its own input during reading."""
    if source.status is None or not source.is_regular or not source.status.st_size:
        return False
    try:
        return os.path.samestat(source.status, os.fstat(sys.stdout.fileno()) if output == "-" else os.stat(output))
    except (OSError, ValueError):
        return False


def _is_waited_for(stream: LineStream, source: LineReader[Any]) -> bool:
    """Returns True if the user waits for the end, without reading answers or typing lines in the meantime."""
    if stream.output == "-":
        return source.is_regular and not sys.stdout.isatty()
    return source.is_regular or not (stream.input == "-" and sys.stdin.isatty())


@contextmanager
def writer(path: str) -> Iterator[TextIO]:
    """Opens standard output as UTF-8, or a file, device or pipe by `open_output_file`.

    Raises DataError if it cannot be written.
    """
    if path == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
        yield sys.stdout
        return
    with open_output_file(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="\n") as text:
        yield text
