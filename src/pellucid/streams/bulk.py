"""A folder of texts translated into another: file by file, each whole or not there, by any number of processes.

    bulk = BulkTranslation(Translating(model="run"), "in", "out")
    for outcome in bulk.translate(bulk.names()):
        print(outcome)

An output is what `pellucid translate` writes for its file. What is there and verifies is not made again, what was
stopped goes on, and a file that cannot be translated costs none of the others.
"""

import functools
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pellucid.errors import DataError, PellucidError, shown
from pellucid.files.reading import sha256_of
from pellucid.files.writing import is_disk_failure, refusals_in_words
from pellucid.streams.columns import ColumnSource
from pellucid.streams.partial_output import PartialOutput, Reached, TakenError, with_versions
from pellucid.streams.progress import LineProgress
from pellucid.streams.shards import Shard, Share, find_shards, needed
from pellucid.streams.source import LineSource
from pellucid.streams.streams import FIRST_STRETCH, stretch_size
from pellucid.streams.translating import Translating
from pellucid.streams.workers import answering_by
from pellucid.workers import DeadWorkerError

if TYPE_CHECKING:
    from pellucid.tasks.translator import Translation, Translator

State = Literal["translated", "done before", "held by another process", "failed"]
MOST_ALIKE = 3
"""Files one after another that cannot be answered, with nothing answered in between: then it is not the files."""


@dataclass(frozen=True)
class Outcome:
    """The end of a file: what has become of it, and for a failure why and what to do."""

    name: str
    state: State
    lines: int = 0
    """The lines that were translated now; of a file that was gone on with, those after."""
    error: str = ""
    hint: str = ""


@dataclass(frozen=True)
class BulkTranslation:
    """A folder of texts to be translated into another. Another process may be sent it, and does its part of it."""

    translating: Translating
    input_dir: str | Path
    output_dir: str | Path
    column: str | None = None
    """The column of Parquet files that is translated; None: their only one of strings."""
    on_bad_utf8: str = "error"
    """The fate of a line that is not UTF-8, as of a stream."""
    fresh: bool = False
    """True: translate again what is done, and begin anew what was stopped."""

    def shards(self, share: Share | None = None) -> list[Shard]:
        """Returns the files, of several processes those of one. Raises what find_shards() and needed() raise."""
        found = find_shards(Path(self.input_dir), Path(self.output_dir))
        needed(found)
        return found[share.number - 1 :: share.count] if share else found

    def names(self, share: Share | None = None) -> list[str]:
        """Returns the names of the files, with slashes between folders."""
        return [shard.name for shard in self.shards(share)]

    def command(self, translator: "Translator") -> dict[str, Any]:
        """Returns what decides the outputs beside the inputs, as JSON has it."""
        settings = {"on_bad_utf8": self.on_bad_utf8, **({} if self.column is None else {"column": self.column})}
        return with_versions({**self.translating.identity(translator), **settings})

    def translate(self, names: Iterable[str]) -> Iterator[Outcome]:
        """Translates some of the files in this process, which opens the model when it is asked for the first.

        Yields how each ended. Raises what Translator.load() raises, and DataError for a full disk.
        """
        translator = self.translating.load()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of single lines, which nobody sees here
            known = {shard.name: shard for shard in self.shards()}
            work = BulkWork(self, translator, [known[name] for name in names])
            yield from work.outcomes(1, None)


@dataclass(eq=False)
class _Open:
    """A file that is being translated: its source, its half-made output, and what was handed out of it."""

    shard: Shard
    source: LineSource | ColumnSource
    partial: PartialOutput
    given: deque[tuple[list[str | None], Reached, float]] = field(default_factory=deque)
    written: int = 0
    share: float = 0.0
    is_read: bool = False
    error: Exception | None = None


class BulkWork:
    """The translation of some files by this process and its workers: stretches of all of them follow one another, so
    that no worker waits for the end of a file.
    """

    def __init__(
        self,
        bulk: BulkTranslation,
        translator: "Translator",
        shards: Sequence[Shard],
        progress: LineProgress | None = None,
        say: Callable[[str], object] = lambda _: None,
        look_at: Callable[[Sequence[str]], object] = lambda _: None,
        add: "Callable[[Iterable[Translation]], object]" = lambda _: None,
    ) -> None:
        """Takes what is told of it: `say` sentences, `look_at` the lines, `add` their translations."""
        self.bulk: BulkTranslation = bulk
        self.translator: Translator = translator
        self.shards: Sequence[Shard] = shards
        self.command: dict[str, Any] = bulk.command(translator)
        self.progress: LineProgress = progress or LineProgress(shown=False)
        self.say: Callable[[str], object] = say
        self.look_at: Callable[[Sequence[str]], object] = look_at
        self.add: Callable[[Iterable[Translation]], object] = add
        self._waiting = deque(shards)
        self._taken: list[Shard] | None = []
        """The files that another process writes; None: they have been asked for again."""
        self._fresh = {shard.name for shard in shards} if bulk.fresh else set[str]()
        self._open: deque[_Open] = deque()
        self._order: deque[_Open] = deque()
        self._ended: deque[Outcome] = deque()
        self._fatal: Exception | None = None
        self._lines = self._handed = 0
        self._bytes = dict.fromkeys((shard.name for shard in shards), 0)
        for shard in shards:
            with suppress(OSError):
                self._bytes[shard.name] = shard.input.stat().st_size
        self._all = sum(self._bytes.values())
        self._done = 0
        """Bytes of the files that have ended."""
        self._workers = 1

    def outcomes(self, workers: int, threads: int | None) -> Iterator[Outcome]:
        """Yields how each file ended. What is stopped keeps what it has.

        Raises DataError for a full disk, DeadWorkerError where workers die again and again, and what answering raises
        where file after file cannot be answered.
        """
        self._workers = workers
        alike, lines_at_death = 0, -1
        try:
            while self._waiting:
                handed = self._lines
                try:
                    yield from self._answered(workers, threads)
                except Exception as error:
                    if error is self._fatal or _is_of_the_disk(error):
                        raise
                    if isinstance(error, DeadWorkerError):
                        if self._lines == lines_at_death:
                            raise
                        lines_at_death = self._lines
                        self.say(f"{error}: others go on")
                    else:
                        alike = 1 if self._lines > handed else alike + 1
                        if alike == MOST_ALIKE or not self._order:
                            raise
                        self._order[0].error = error
                    yield from self._ended_ones()
                    self._hand_back()
                yield from self._ended_ones()
        finally:
            for each in self._open:
                each.source.close()
                with suppress(OSError):
                    each.partial.keep(_nothing)

    def _answered(self, workers: int, threads: int | None) -> Iterator[Outcome]:
        """Has all that waits answered, until an error ends it."""
        translating = self.bulk.translating
        options = translating.answering
        # The bar has a thread, beside which no worker can be copied.
        with answering_by(workers, threads, self.translator, translating.load, options) as answered, self.progress:
            self.progress.begin(self._lines, self._share())
            for found in answered(self._stretches(), lambda: True):
                yield from self._ended_ones()  # the file before may have been found at its end since
                self._write(found)
                yield from self._ended_ones()

    def _stretches(self) -> Iterator[tuple[int, list[str]]]:
        """Yields stretches of all files, one file after another."""
        nothing = self.bulk.translating.nothing[0]
        while self._waiting:
            try:
                current = self._begun(self._waiting.popleft())
            except Exception as error:
                self._fatal = error
                raise
            if current is None:
                if not self._waiting and self._taken:
                    # Their process may have died, or be done.
                    self._waiting, self._taken = deque(self._taken), None
                continue
            self._open.append(current)
            try:
                size = FIRST_STRETCH
                while lines := current.source.take(size):
                    reached, share = Reached.by(current.source), current.source.share or 0.0
                    current.given.append((lines, reached, share))
                    self._order.append(current)
                    texts = [nothing if line is None else line for line in lines]
                    self.look_at(texts)
                    self._handed += len(texts)
                    yield reached.number - len(lines), texts
                    size = stretch_size(self._workers, self._handed, self._share())
            except (PellucidError, OSError) as error:
                current.error = error
            current.is_read = True
            if not self._waiting and self._taken:
                self._waiting, self._taken = deque(self._taken), None

    def _begun(self, shard: Shard) -> _Open | None:
        """Opens a file and its output; None where it needs no work, or can have none, which is an outcome.

        Raises DataError for a full disk.
        """
        with ExitStack() as stack:
            try:
                source = shard.source(self.bulk.on_bad_utf8, self.bulk.column)
                stack.callback(source.close)
                for folder in (shard.output.parent, shard.own.parent):
                    with refusals_in_words(folder, "folder"):
                        folder.mkdir(parents=True, exist_ok=True)
                with refusals_in_words(shard.output), refusals_in_words(shard.own):
                    place = functools.partial(self._place, shard, source, _stamp(shard))
                    decided_by = shard.decided_by(self.command)
                    partial = PartialOutput(shard.output, decided_by, source, beside=shard.own, place=place)
                    is_fresh = shard.name in self._fresh
                    try:
                        if not is_fresh:
                            # Another process may have done it since; now that it is ours none does.
                            shard.refuse_other(self.command)
                            if shard.lacks() is None:
                                partial.keep(_nothing)
                                self._end(shard, Outcome(shard.name, "done before"))
                                return None
                        partial.begin(is_fresh, self.say)
                    except BaseException:
                        partial.keep(_nothing)
                        raise
            except TakenError:
                if self._taken is None:
                    self._end(shard, Outcome(shard.name, "held by another process"))
                else:
                    self._taken.append(shard)
                return None
            except (PellucidError, OSError) as error:
                if _is_of_the_disk(error):
                    raise
                self._end(shard, _failure(shard, error))
                return None
            self._fresh.discard(shard.name)  # what this command has begun it goes on with
            stack.pop_all()
            return _Open(shard, source, partial)

    def _write(self, found: "Sequence[Translation]") -> None:
        """Writes the answers of the first stretch that was handed out and is not written yet."""
        translating = self.bulk.translating
        current = self._order.popleft()
        lines, reached, share = current.given.popleft()
        self.add(found)
        texts: list[str | None] = [
            translating.nothing[1] if line is None else translating.line(translation)
            for line, translation in zip(lines, found, strict=True)
        ]
        if current.shard.is_table:  # whose texts may have several lines, and whose nothing is null
            texts = [None if line is None else text for line, text in zip(lines, texts, strict=True)]
            texts = [dumps(text, ensure_ascii=False) for text in texts]
        with refusals_in_words(current.shard.output, "folder"):
            current.partial.write("".join(f"{text}\n" for text in texts), reached)
        current.written += len(lines)
        current.share = share
        self._lines += len(lines)
        self.progress.update(self._lines, self._share())

    def _ended_ones(self) -> Iterator[Outcome]:
        """Yields the outcomes of files of which all is written."""
        while self._open and not self._open[0].given and (self._open[0].is_read or self._open[0].error):
            self._finish(self._open[0])
            self._open.popleft()
        while self._ended:
            yield self._ended.popleft()

    def _finish(self, current: _Open) -> None:
        """Has the output of a file take its place, with its record; or keeps what there is of it.

        Raises DataError for a full disk.
        """
        shard = current.shard
        if current.error is None:
            try:
                with refusals_in_words(shard.output), refusals_in_words(shard.own):
                    current.partial.finish()
            except (PellucidError, OSError) as error:
                if _is_of_the_disk(error):
                    raise
                current.error = error
        current.source.close()
        if current.error is None:
            self._end(shard, Outcome(shard.name, "translated", current.written))
        else:
            with suppress(OSError):
                current.partial.keep(_nothing)
            self._end(shard, _failure(shard, current.error))

    def _place(
        self, shard: Shard, source: LineSource | ColumnSource, stamp: tuple[int, int], plain: Path, target: Path
    ) -> None:
        """Has the finished lines become the output, with its record. Raises DataError where the input has changed."""
        digest = sha256_of(shard.input)
        if _stamp(shard) != stamp:
            raise DataError(f"`{shown(shard.input)}` has changed while it was read", "run it again")
        shard.place(plain, target)
        shard.write_record(self.command, source.number, digest)

    def _hand_back(self) -> None:
        """Closes what is open after an error of one of them, to be gone on with."""
        self._order.clear()
        for each in reversed(self._open):
            each.source.close()
            each.partial.keep(_nothing)
            if each.error is not None:
                self._end(each.shard, _failure(each.shard, each.error))
            else:
                self._waiting.appendleft(each.shard)
        self._open.clear()

    def _end(self, shard: Shard, outcome: Outcome) -> None:
        self._ended.append(outcome)
        self._done += self._bytes[shard.name]

    def _share(self) -> float:
        """Returns the part of all files that is done, by their bytes."""
        under_way = sum(each.share * self._bytes[each.shard.name] for each in self._open)
        return min(1.0, (self._done + under_way) / self._all) if self._all else 1.0


def to_be_done(shards: Sequence[Shard], command: Mapping[str, Any], fresh: bool) -> tuple[list[Shard], Counter[str]]:
    """Returns the files that must be translated, and how many of them for which reason; "" where none are there.

    Raises ConfigError where an output is another command's, unless all is to be begun anew.
    """
    reasons: Counter[str] = Counter()
    found = []
    for shard in shards:
        if not fresh:
            shard.refuse_other(command)
        reason = "a fresh start was asked for" if fresh and shard.recorded() else shard.lacks()
        if reason is not None:
            found.append(shard)
            reasons[reason] += 1
    return found, reasons


def _failure(shard: Shard, error: Exception) -> Outcome:
    if isinstance(error, PellucidError):
        return Outcome(shard.name, "failed", error=str(error), hint=error.hint)
    if isinstance(error, OSError):
        return Outcome(shard.name, "failed", error=f"cannot use `{shown(shard.input)}`: {error.strerror or error}")
    return Outcome(shard.name, "failed", error=f"`{shown(shard.input)}`: {type(error).__name__}: {error}")


def _is_of_the_disk(error: BaseException) -> bool:
    """Tells whether the disk of the outputs is at fault: then it is so for all files."""
    return any(isinstance(each, OSError) and is_disk_failure(each) for each in (error, error.__cause__))


def _stamp(shard: Shard) -> tuple[int, int]:
    status = shard.input.stat()
    return status.st_size, status.st_mtime_ns


def _nothing(_: str) -> None:
    pass
