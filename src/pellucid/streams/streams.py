"""Lines in, lines out: what the verbs share that answer each line of a stream with one of their own."""

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

from pellucid.data.lines import STRETCH
from pellucid.errors import ConfigError, shown
from pellucid.files.writing import is_replaceable, output, writable
from pellucid.streams.partial_output import Countable, Reached, partial_output
from pellucid.streams.progress import LineProgress
from pellucid.streams.source import LineSource

if TYPE_CHECKING:
    from pellucid.tasks.task import TextModel

Line = TypeVar("Line")

FIRST_STRETCH = 64
SMALL_STRETCH = 256
"""Lines for one worker of several, where nobody knows how many come."""
WITHOUT_EFFECT = ("batch_tokens",)
"""Settings that change how answers are computed, and not what they are: who runs out of memory may lower them."""


@dataclass(frozen=True)
class Stream:
    """The way of a stream: where lines come from and their answers go."""

    input: str = "-"
    output: str = "-"
    on_bad_utf8: str = "error"
    """The fate of a line that is not UTF-8: "error" ends all, "replace" reads U+FFFD for bad bytes, "skip" gives an
    empty line for it."""
    fresh: bool = False
    """True: begin anew where a stopped command has left the beginning of the output."""
    text: str | None = None
    """The lines themselves, in place of an input."""


def text_stream(text: str | None, input: str, output: str, on_bad_utf8: str, fresh: bool) -> Stream:
    """Returns the stream of a command that takes a text as an argument, or lines; `-` as a text is standard input.

    Raises ConfigError where both are given.
    """
    if text is not None and input != "-":
        raise ConfigError(f"a text is given, and `input={shown(Path(input))}`", "leave one of them out")
    return Stream(input, output, on_bad_utf8, fresh, None if text == "-" else text)


class Source(Countable, Protocol[Line]):
    """A source of lines, or of pairs of them: a LineSource, a PairSource."""

    @property
    def is_regular(self) -> bool: ...

    @property
    def share(self) -> float | None: ...

    @property
    def is_ready(self) -> bool: ...

    def take(self, most: int) -> list[Line | None]: ...


@contextmanager
def opened(stream: Stream) -> Iterator[LineSource]:
    """Opens the lines of the input, and refuses what can be refused of both ends before anything is computed.

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


class Answers(Generic[Line]):
    """A stream on its way: hands out stretches of lines, in their order, and takes the answers of each.

        for place, lines in answers:
            answers.write(line.upper() for line in lines)

    `place` is how many lines came before. An answer depends on its line and its place, and not on where stretches
    begin. Several may be handed out before the first one is written.
    """

    def __init__(
        self,
        source: Source[Line],
        write: Callable[[str, Reached], object],
        progress: LineProgress,
        nothing: tuple[Line, str],
        workers: int,
        stretch: int | None = None,
    ) -> None:
        """Begins behind the lines that have been taken from the source; see `answering`."""
        self._source = source
        self._write = write
        self._progress = progress
        self._nothing = nothing
        self._workers = workers
        self._stretch = stretch
        self._given: deque[tuple[list[Line | None], Reached, float | None]] = deque()
        self._first = source.number
        progress.begin(source.number, source.share)

    def __iter__(self) -> Iterator[tuple[int, list[Line]]]:
        size = FIRST_STRETCH if self._stretch is None else self._to_its_end(self._stretch)
        while lines := self._source.take(size):
            reached, share = Reached.by(self._source), self._source.share
            self._given.append((lines, reached, share))
            yield reached.number - len(lines), [self._nothing[0] if line is None else line for line in lines]
            size = stretch_size(self._workers, reached.number - self._first, share)
            if self._stretch is not None:
                size = self._to_its_end(self._stretch)

    def _to_its_end(self, stretch: int) -> int:
        """Returns how many lines are left of a stretch in which the source stands."""
        return stretch - self._source.number % stretch

    def is_ready(self) -> bool:
        """Tells whether the next stretch need not be waited for."""
        return self._source.is_ready

    def write(self, answers: Iterable[str]) -> None:
        """Writes the answers of the first stretch that was handed out and is not written yet, a line each."""
        lines, reached, share = self._given.popleft()
        both = zip(lines, answers, strict=True)
        self._write("".join(f"{self._nothing[1] if line is None else answer}\n" for line, answer in both), reached)
        self._progress.update(reached.number, share)


def stretch_size(workers: int, read: int, share: float | None) -> int:
    """Returns how many lines to take for one of so many workers, after `read` of them have been taken.

    The less is left the fewer, so that all workers end at about the same time.
    """
    if workers == 1:
        return STRETCH
    if not share:
        return SMALL_STRETCH
    left = read * (1 - share) / share
    return min(STRETCH, max(FIRST_STRETCH, round(left / (2 * workers))))


@contextmanager
def answering(
    stream: Stream,
    source: Source[Line],
    *,
    command: Callable[[], Mapping[str, Any]],
    nothing: tuple[Line, str],
    workers: int = 1,
    stretch: int | None = None,
) -> Iterator[Answers[Line]]:
    """Opens the output of a stream. It is whole when the context ends well, and else stays to be gone on with.

    Args:
        command: makes a table of what decides the answers beside the lines: an output that was stopped goes on under
            the same one alone.
        nothing: the line that stands for one that is left out, and what is written for it.
        workers: how many take stretches side by side.
        stretch: lines that are answered together, of one worker and a file, whether or not it was stopped: the last
            digits of a score follow from what is computed together. None: as many as suit who waits.
    """
    with LineProgress(shown=_is_waited_for(stream, source)) as progress:
        if stream.output == "-" or not is_replaceable(stream.output):
            with writer(stream.output) as file:

                def write(text: str, _: Reached) -> None:
                    file.write(text)
                    file.flush()

                yield Answers(source, write, progress, nothing, workers, stretch)
        else:
            settings = {**command(), "on_bad_utf8": stream.on_bad_utf8}
            target = writable(stream.output)
            with partial_output(target, settings, source, fresh=stream.fresh, say=_say) as partial:
                yield Answers(source, partial.write, progress, nothing, workers, stretch)


def identity(verb: str, task: "TextModel[Any]", settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what decides the answers of a verb, as JSON has it: equal tables write equal answers to equal lines."""
    digest = hashlib.sha256()
    device = task.add_weights(digest)
    with TemporaryDirectory(prefix="pellucid-") as folder:
        table = task.tokenizers.save(Path(folder))  # which names its files by their digests
    digest.update(json.dumps(table, sort_keys=True, default=str).encode())
    effective = {name: value for name, value in settings.items() if value is not None and name not in WITHOUT_EFFECT}
    found = {"verb": verb, "model": digest.hexdigest(), "device": device, **effective}
    as_stored: dict[str, Any] = json.loads(json.dumps(found))  # with lists, not tuples
    return as_stored


def _is_output_too(source: LineSource, output: str) -> bool:
    """Tells whether an output would replace its own input while that is read."""
    if source.status is None or not source.is_regular or not source.status.st_size:
        return False
    try:
        return os.path.samestat(source.status, os.fstat(sys.stdout.fileno()) if output == "-" else os.stat(output))
    except (OSError, ValueError):
        return False


def _is_waited_for(stream: Stream, source: Source[Any]) -> bool:
    """Tells whether somebody waits for the end, and neither reads the answers meanwhile nor gives the lines singly."""
    if stream.output == "-":
        return source.is_regular and not sys.stdout.isatty()
    return source.is_regular or not (stream.input == "-" and sys.stdin.isatty())


def _say(text: str) -> None:
    print(text, file=sys.stderr)


@contextmanager
def writer(path: str) -> Iterator[TextIO]:
    """Opens standard output as UTF-8, or what output() makes of a file, device or pipe.

    Raises DataError where nothing can be written there.
    """
    if path == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
        yield sys.stdout
        return
    with output(path) as file, io.TextIOWrapper(file, encoding="utf-8", newline="\n") as text:
        yield text
