"""Translates a folder of texts into another folder: file by file, with atomic writes, by any number of processes.

    bulk = BulkTranslation(Translating(model="run"), "in", "out")
    for outcome in bulk.translate(bulk.names()):
        print(outcome)

An output is equal to that of `pellucid translate` for its file. Existing outputs that are intact are not translated
again, interrupted outputs are resumed, and a file that cannot be translated does not affect the others.
"""

import functools
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.data.chunks import ChunkSizes
from pellucid.errors import DataError, DecodingError, PellucidError, format_value
from pellucid.files.reading import hash_file
from pellucid.files.writing import convert_write_errors
from pellucid.streams.columns import ColumnSource
from pellucid.streams.file_results import FileResult, is_of_the_disk, make_failure
from pellucid.streams.folder_documents import DocumentsRequest, make_answering
from pellucid.streams.folder_files import FileJob, Share, check_libraries, find_shards
from pellucid.streams.partial_output import OutputLockedError, PartialOutput, StreamPosition, add_versions
from pellucid.streams.progress import LineProgress
from pellucid.streams.source import LineSource
from pellucid.streams.translate_job import Translating
from pellucid.streams.workers import run_workers
from pellucid.workers import DeadWorkerError

if TYPE_CHECKING:
    from pellucid.tasks.translation import Translation
    from pellucid.tasks.translator import Translator

MOST_ALIKE = 3
"""Consecutive files that fail with an error not caused by a text, without any progress: the cause is then not in the
files."""
OF_A_TEXT = (DataError, DecodingError)
"""Errors caused by a text. They never count against the next file."""


@dataclass(frozen=True)
class BulkTranslation:
    """A folder of texts to be translated into another. It can be sent to other processes, which do a part of it."""

    translating: Translating
    input_dir: str | Path
    output_dir: str | Path
    column: str | None = None
    """The column of Parquet files that is translated; None: the only column of strings."""
    on_bad_utf8: str = "error"
    """The handling of a line that is not UTF-8, as for a stream."""
    fresh: bool = False
    """If True, translates finished files again, and restarts interrupted ones."""
    label: str | None = None
    """The code of the target language for the labels of documents; None: that of the model."""

    def shards(self, share: Share | None = None) -> list[FileJob]:
        """Returns the files, or the share of one process. Raises the errors of find_shards() and check_libraries()."""
        found = find_shards(Path(self.input_dir), Path(self.output_dir))
        check_libraries(found)
        return found[share.number - 1 :: share.count] if share else found

    def names(self, share: Share | None = None) -> list[str]:
        """Returns the names of the files, with slashes between folders."""
        return [shard.name for shard in self.shards(share)]

    def command(self, translator: "Translator") -> dict[str, Any]:
        """Returns the settings that determine the outputs in addition to the inputs, as JSON values."""
        settings = {"on_bad_utf8": self.on_bad_utf8, **({} if self.column is None else {"column": self.column})}
        if self.label is not None:
            settings["label"] = self.label
        return add_versions({**self.translating.identity(translator), **settings})

    def translate(self, names: Iterable[str]) -> Iterator[FileResult]:
        """Translates some of the files in this process, which loads the model at the first one.

        Yields the result of each file. Raises the errors of Translator.load(), and DataError for a full disk.
        """
        translator = self.translating.load()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about single lines are not shown here
            known = {shard.name: shard for shard in self.shards()}
            work = BulkWork(self, translator, [known[name] for name in names])
            yield from work.outcomes(1, None)


@dataclass(eq=False)
class _Open:
    """A file that is being translated: its source, its partial output, and the chunks passed to workers."""

    shard: FileJob
    source: LineSource | ColumnSource
    partial: PartialOutput
    given: deque[tuple[list[str | None], StreamPosition, float]] = field(default_factory=deque)
    written: int = 0
    share: float = 0.0
    is_read: bool = False
    error: Exception | None = None


class BulkWork:
    """The translation of some files by this process and its workers: the chunks of all files form one sequence, so that
    no worker waits for the end of a file.
    """

    def __init__(
        self,
        bulk: BulkTranslation,
        translator: "Translator",
        shards: Sequence[FileJob],
        progress: LineProgress | None = None,
        log_line: Callable[[str], object] = lambda _: None,
        look_at: Callable[[Sequence[str]], object] = lambda _: None,
        add: "Callable[[str, int, Sequence[str], Sequence[Translation]], object]" = lambda *_: None,
    ) -> None:
        """Stores the callbacks: `log_line` is called with messages, `look_at` with lines, `add` with the name of a
        file, the index of the first line, lines and their translations.
        """
        self.bulk: BulkTranslation = bulk
        self.translator: Translator = translator
        self.shards: Sequence[FileJob] = shards
        self.command: dict[str, Any] = bulk.command(translator)
        self.progress: LineProgress = progress or LineProgress(shown=False)
        self.log_line: Callable[[str], object] = log_line
        self.look_at: Callable[[Sequence[str]], object] = look_at
        self.add: Callable[[str, int, Sequence[str], Sequence[Translation]], object] = add
        ordered = sorted(shards, key=lambda shard: shard.has_failed)
        self._documents = {shard.name: shard for shard in ordered if shard.is_document}
        self._waiting = deque(shard for shard in ordered if not shard.is_document)
        self._taken: list[FileJob] | None = []
        """The files that another process is writing; None after they have been tried again."""
        self._fresh = {shard.name for shard in shards} if bulk.fresh else set[str]()
        self._open: deque[_Open] = deque()
        self._order: deque[_Open] = deque()
        self._ended: deque[FileResult] = deque()
        self._fatal: Exception | None = None
        self._lines = self._handed = 0
        self._bytes = dict.fromkeys((shard.name for shard in shards), 0)
        for shard in shards:
            with suppress(OSError):
                self._bytes[shard.name] = shard.input.stat().st_size
        self._all = sum(self._bytes.values())
        self._done = 0
        """Bytes of the files that have ended."""
        self._sizes = ChunkSizes()

    def outcomes(self, workers: int, threads: int | None) -> Iterator[FileResult]:
        """Yields the result of each file. Interrupted outputs are kept.

        Raises DataError for a full disk, DeadWorkerError if workers die repeatedly, and the error of the translation if
        several files in a row fail for a reason that is not in their texts.
        """
        yield from self._translate_documents(workers, threads)
        alike, lines_at_death = 0, -1
        try:
            while self._waiting:
                handed = self._lines
                try:
                    yield from self._answer(workers, threads)
                except Exception as error:
                    if error is self._fatal or is_of_the_disk(error):
                        raise
                    if isinstance(error, DeadWorkerError):
                        if self._lines == lines_at_death:
                            raise
                        lines_at_death = self._lines
                        self.log_line(f"{error}; the other workers continue")
                    else:
                        if not self._order:
                            raise
                        self._order[0].error = error
                        if not isinstance(error, OF_A_TEXT):
                            alike = 1 if self._lines > handed else alike + 1
                            if alike == MOST_ALIKE:
                                self._order[0].shard.note_failure(True)
                                raise
                    yield from self._iterate_ended()
                    self._hand_back()
                yield from self._iterate_ended()
        finally:
            for each in self._open:
                each.source.close()
                with suppress(OSError):
                    each.partial.keep(_ignore)

    def _translate_documents(self, workers: int, threads: int | None) -> Iterator[FileResult]:
        """Yields the result of each document; those that another process holds are tried again at the end."""
        names, is_last = [*self._documents], False
        while names:
            held = list[str]()
            load, options = self.bulk.translating.load, self.bulk.translating.options.non_defaults
            request = DocumentsRequest(self._documents, self.command, options, self.bulk.label, self.bulk.fresh)
            make = functools.partial(make_answering, request, self._show if workers == 1 else None)
            with (
                run_workers(workers, threads, self.translator, load, make_answering=make) as answered,
                self.progress,
            ):
                self.progress.begin(self._lines, self._share())
                for (found,) in answered(((n, [name]) for n, name in enumerate(names)), lambda: True):
                    if found.state == "held by another process" and not is_last:
                        held.append(found.name)
                        continue
                    self._end(self._documents[found.name], found)
                    self.progress.update(self._lines, self._share())
                    yield from self._iterate_ended()
            names, is_last = held, True  # the other process may have died, or finished

    def _show(self, shard: FileJob, share: float) -> None:
        part = share * self._bytes[shard.name]
        self.progress.update(self._lines, min(1.0, (self._done + part) / self._all) if self._all else 1.0)

    def _answer(self, workers: int, threads: int | None) -> Iterator[FileResult]:
        """Translates all waiting files, until an error ends it."""
        translating = self.bulk.translating
        options = translating.answering
        self._sizes = ChunkSizes(workers)
        # The progress bar has a thread, and workers must be forked before it starts.
        with run_workers(workers, threads, self.translator, translating.load, options) as answered, self.progress:
            self.progress.begin(self._lines, self._share())
            for found in answered(self._chunks(), lambda: True):
                yield from self._iterate_ended()  # the end of the previous file may have been reached since
                self._write(found)
                yield from self._iterate_ended()

    def _chunks(self) -> Iterator[tuple[int, list[str]]]:
        """Yields chunks of all files, one file after another."""
        nothing = self.bulk.translating.nothing[0]
        while self._waiting:
            try:
                current = self._begin(self._waiting.popleft())
            except Exception as error:
                self._fatal = error
                raise
            if current is None:
                if not self._waiting and self._taken:
                    # The other process may have died, or finished.
                    self._waiting, self._taken = deque(self._taken), None
                continue
            self._open.append(current)
            try:
                while lines := current.source.take(self._sizes.choose(self._share(), self._handed)):
                    reached, share = StreamPosition.from_source(current.source), current.source.share or 0.0
                    current.given.append((lines, reached, share))
                    self._order.append(current)
                    texts = [nothing if line is None else line for line in lines]
                    self.look_at(texts)
                    self._handed += len(texts)
                    self._sizes.begin(len(texts))
                    yield reached.number - len(lines), texts
            except (PellucidError, OSError) as error:
                current.error = error
            current.is_read = True
            if not self._waiting and self._taken:
                self._waiting, self._taken = deque(self._taken), None

    def _begin(self, shard: FileJob) -> _Open | None:
        """Opens a file and its output; returns None if it needs no work or cannot be opened, which is its result.

        Raises DataError for a full disk.
        """
        with ExitStack() as stack:
            try:
                source = shard.source(self.bulk.on_bad_utf8, self.bulk.column)
                stack.callback(source.close)
                for folder in (shard.output.parent, shard.own.parent):
                    with convert_write_errors(folder, "folder"):
                        folder.mkdir(parents=True, exist_ok=True)
                with convert_write_errors(shard.output), convert_write_errors(shard.own):
                    place = functools.partial(self._place, shard, source, _stamp(shard))
                    decided_by = shard.select_settings(self.command)
                    partial = PartialOutput(shard.output, decided_by, source, base=shard.own, place=place)
                    is_fresh = shard.name in self._fresh
                    try:
                        if not is_fresh:
                            # Another process may have finished it before it was locked here.
                            shard.refuse_other(self.command)
                            if shard.lacks() is None:
                                partial.keep(_ignore)
                                self._end(shard, FileResult(shard.name, "done before"))
                                return None
                        partial.begin(is_fresh, self.log_line)
                    except BaseException:
                        partial.keep(_ignore)
                        raise
            except OutputLockedError:
                if self._taken is None:
                    self._end(shard, FileResult(shard.name, "held by another process"))
                else:
                    self._taken.append(shard)
                return None
            except (PellucidError, OSError) as error:
                if is_of_the_disk(error):
                    raise
                self._end(shard, make_failure(shard, error))
                return None
            self._fresh.discard(shard.name)  # from now on this command resumes it
            stack.pop_all()
            return _Open(shard, source, partial)

    def _write(self, found: "Sequence[Translation]") -> None:
        """Writes the translations of the oldest chunk that is not written yet."""
        translating = self.bulk.translating
        current = self._order.popleft()
        lines, reached, share = current.given.popleft()
        self._sizes.end()
        read = [translating.nothing[0] if line is None else line for line in lines]
        self.add(current.shard.name, reached.number - len(lines), read, found)
        texts: list[str | None] = [
            translating.nothing[1] if line is None else translating.line(translation)
            for line, translation in zip(lines, found, strict=True)
        ]
        if current.shard.is_table:  # its texts may have several lines, and null represents a skipped text
            texts = [None if line is None else text for line, text in zip(lines, texts, strict=True)]
            texts = [dumps(text, ensure_ascii=False) for text in texts]
        with convert_write_errors(current.shard.output, "folder"):
            current.partial.write("".join(f"{text}\n" for text in texts), reached)
        current.written += len(lines)
        current.share = share
        self._lines += len(lines)
        self.progress.update(self._lines, self._share())

    def _iterate_ended(self) -> Iterator[FileResult]:
        """Yields the results of completely written files."""
        while self._open and not self._open[0].given and (self._open[0].is_read or self._open[0].error):
            self._finish(self._open[0])
            self._open.popleft()
        while self._ended:
            yield self._ended.popleft()

    def _finish(self, current: _Open) -> None:
        """Moves the output of a file to its final path and writes its record; after an error keeps the partial output.

        Raises DataError for a full disk.
        """
        shard = current.shard
        if current.error is None:
            try:
                with convert_write_errors(shard.output), convert_write_errors(shard.own):
                    current.partial.finish()
            except (PellucidError, OSError) as error:
                if is_of_the_disk(error):
                    raise
                current.error = error
        current.source.close()
        if current.error is None:
            self._end(shard, FileResult(shard.name, "translated", current.written))
        else:
            with suppress(OSError):
                current.partial.keep(_ignore)
            self._end(shard, make_failure(shard, current.error))

    def _place(
        self, shard: FileJob, source: LineSource | ColumnSource, stamp: tuple[int, int], plain: Path, target: Path
    ) -> None:
        """Creates the output and its record from the finished lines. Raises DataError if the input has changed."""
        digest = hash_file(shard.input)
        if _stamp(shard) != stamp:
            raise DataError(
                f"`{format_value(shard.input)}` changed while it was being read", "run the same command again"
            )
        shard.place(plain, target)
        shard.write_record(self.command, source.number, digest)

    def _hand_back(self) -> None:
        """Closes the open files after an error in one of them, so that the others can be resumed."""
        self._order.clear()
        for each in reversed(self._open):
            each.source.close()
            each.partial.keep(_ignore)
            if each.error is not None:
                self._end(each.shard, make_failure(each.shard, each.error))
            else:
                self._waiting.appendleft(each.shard)
        self._open.clear()

    def _end(self, shard: FileJob, outcome: FileResult) -> None:
        self._ended.append(outcome)
        if outcome.state in ("translated", "failed"):
            shard.note_failure(outcome.state == "failed")
        self._done += self._bytes[shard.name]

    def _share(self) -> float:
        """Returns the fraction of all files that is done, by bytes."""
        under_way = sum(each.share * self._bytes[each.shard.name] for each in self._open)
        return min(1.0, (self._done + under_way) / self._all) if self._all else 1.0


def select_pending(
    shards: Sequence[FileJob], command: Mapping[str, Any], fresh: bool
) -> tuple[list[FileJob], Counter[str]]:
    """Returns the files that must be translated, and their number per reason; "" if the output does not exist yet.

    Raises ConfigError if an output is of another command, unless `fresh`.
    """
    reasons: Counter[str] = Counter()
    found = []
    for shard in shards:
        if not fresh:
            shard.refuse_other(command)
        reason = "a fresh start was requested" if fresh and shard.read_record() else shard.lacks()
        if reason is not None:
            found.append(shard)
            reasons[reason] += 1
    return found, reasons


def _stamp(shard: FileJob) -> tuple[int, int]:
    status = shard.input.stat()
    return status.st_size, status.st_mtime_ns


def _ignore(_: str) -> None:
    pass
