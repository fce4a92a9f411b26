"""The source of a stream's lines: a file, standard input or a pipe, taken a chunk at a time."""

import hashlib
import io
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast, get_args

from pellucid.config.data import OnBadUtf8
from pellucid.data.lines import decode_line, format_display_name, open_stdin, read_raw_lines
from pellucid.errors import ConfigError, DataError, did_you_mean, format_value
from pellucid.files.budget import MOST_TEXT_BYTES, MOST_TOGETHER_BYTES
from pellucid.files.formats import HEAD, Format, detect_format
from pellucid.streams.background_reader import Arrivals

PASSED_AT_ONCE = 4096

TEXT = "TEXT"
"""The name that the help uses for a text passed as an argument."""

ON_BAD_UTF8 = get_args(OnBadUtf8)


class LineSource:
    """The lines of a file ("-": standard input), plain or gzip; lines that are taken are counted and hashed.

    A regular file returns as many lines as requested; a pipe or a terminal returns the lines that have arrived, so that
    a program that writes a line and waits gets its answer.
    """

    def __init__(self, path: str, on_bad_utf8: str = "error", text: str | None = None) -> None:
        """Reads the lines of `text`, if given.

        Raises DataError if the file does not exist, ConfigError for another `on_bad_utf8`.
        """
        if on_bad_utf8 not in ON_BAD_UTF8:
            raise ConfigError(
                f"`on_bad_utf8={format_value(on_bad_utf8)}` is unknown{did_you_mean(on_bad_utf8, ON_BAD_UTF8)}",
                f"choose one of {', '.join(ON_BAD_UTF8)}",
            )
        self.path: str = path if text is None else TEXT
        self.number: int = 0
        """The number of lines that were taken."""
        self._on_bad_utf8 = cast(OnBadUtf8, on_bad_utf8)
        self._hash = hashlib.sha256()
        # Bytes that were not UTF-8 on the command line are restored, and reported like invalid bytes of a file.
        self._file = _open(path) if text is None else io.BytesIO(text.encode(errors="surrogateescape") + b"\n")
        self.status: os.stat_result | None = _status(self._file)
        """The system's status of the file; None if it is not a file."""
        self._start = self._file.tell() if self.is_regular else 0
        self._passed: list[bytes] = []
        self._again: Iterator[bytes] = iter(())
        self._lines: Iterator[bytes] = iter(())
        self._arrivals: Arrivals | None = None
        self._begin()

    def take(self, most: int) -> list[str | None]:
        """Returns the next lines, at most `most`, with None for a skipped line; an empty list at the end.

        Raises DataError for a line that is not UTF-8 or too long, and for a damaged gzip file.
        """
        lines = []
        for raw in self._take_raw(most):
            lines.append(decode_line(raw, self.number + 1, self.path, self._on_bad_utf8, lambda *_: None))
            self._count(raw)
        return lines

    @property
    def is_ready(self) -> bool:
        """True if take() would not wait for a pipe."""
        return self.is_regular or (self._arrivals is not None and self._arrivals.is_ready)

    @property
    def digest(self) -> str:
        """The SHA-256 of all lines that were taken."""
        return self._hash.hexdigest()

    def skip(self, number: int, digest: str) -> bool:
        """Skips `number` lines and returns True if `digest` is theirs; else rewinds and returns False."""
        while self.number < number and (raw := self._take_raw(min(number - self.number, PASSED_AT_ONCE))):
            for line in raw:
                self._count(line)
            if not self.is_regular:  # it cannot be read again
                self._passed += raw
        if self.number == number and self.digest == digest:
            return True
        self.restart()
        return False

    def restart(self) -> None:
        """Rewinds to the beginning after lines were skipped."""
        self.number, self._hash = 0, hashlib.sha256()
        if self.is_regular:
            self._file.seek(self._start)
            self._begin()
        else:
            self._again, self._passed = iter(self._passed), []

    @property
    def is_regular(self) -> bool:
        """True for a file of a known size, which can be read again."""
        return self.status is not None and stat.S_ISREG(self.status.st_mode)

    @property
    def share(self) -> float | None:
        """The fraction of a regular file that has been read, from 0 to 1; else None."""
        if not self.is_regular or self.status is None:
            return None
        length = self.status.st_size - self._start
        return min(1.0, (self._file.tell() - self._start) / length) if length > 0 else 1.0

    def close(self) -> None:
        """Closes the file, unless it is standard input. A pipe that a thread waits for is left to the system."""
        if self.path != "-" and self.is_regular:
            self._file.close()

    def _begin(self) -> None:
        self._lines = read_raw_lines(self._file, self.path, MOST_TEXT_BYTES)

    def _read_and_close(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        yield from lines
        if self.path != "-":
            self._file.close()

    def _take_raw(self, most: int) -> list[bytes]:
        if again := _take_together(self._again, most):
            return again
        if self.is_regular:
            return _take_together(self._lines, most)
        if self._arrivals is None:  # its thread begins here: until then the process can be forked
            self._arrivals = Arrivals(self._read_and_close(self._lines))
        return self._arrivals.take(most)

    def _count(self, raw: bytes) -> None:
        self.number += 1
        self._hash.update(raw)
        self._hash.update(b"\n")


def _take_together(lines: Iterator[bytes], most: int) -> list[bytes]:
    """Returns the next lines, at most `most`, and stops once they have MOST_TOGETHER_BYTES."""
    taken, size = list[bytes](), 0
    for line in islice(lines, most):
        taken.append(line)
        size += len(line)
        if size >= MOST_TOGETHER_BYTES:
            break
    return taken


class PairSource:
    """Two parallel sources: line n of one belongs to line n of the other."""

    def __init__(self, first: LineSource, second: LineSource) -> None:
        self._first, self._second = first, second
        self.number: int = 0
        """The number of pairs that were taken."""
        self._ended = False

    def take(self, most: int) -> list[tuple[str, str] | None]:
        """Returns the next pairs, at most `most`, with None for a pair with a skipped side; an empty list at the end.

        Raises the errors of LineSource.take(); DataError, after the last pair, if one source has more lines.
        """
        if self._ended:
            return self._end()
        # A pipe returns the lines that have arrived, so it leads, and a file returns as many.
        leads, follows = self._first, self._second
        if leads.is_regular and not follows.is_regular:
            leads, follows = follows, leads
        leading, following = leads.take(most), list[str | None]()
        while len(following) < len(leading) and (more := follows.take(len(leading) - len(following))):
            following += more
        self._ended = len(following) < len(leading) or not leading
        self.number += len(following)
        if not following:
            return self._end()
        firsts, seconds = (leading, following) if leads is self._first else (following, leading)
        pairs = zip(firsts, seconds, strict=False)
        return [None if one is None or other is None else (one, other) for one, other in pairs]

    def _end(self) -> list[tuple[str, str] | None]:
        """Returns an empty list if both have ended at the same line. Raises DataError otherwise."""
        for source in (self._first, self._second):
            while source.take(PASSED_AT_ONCE):
                pass
        one, other = self._first, self._second
        if one.number != other.number:
            raise DataError(
                f"{format_display_name(one.path)} and {format_display_name(other.path)} must have the same number of "
                "lines, but "
                f"{format_display_name(one.path)} has {one.number:,} and "
                f"{format_display_name(other.path)} {other.number:,}",
                "line n of each file must belong to the same sentence",
            )
        return []

    @property
    def is_ready(self) -> bool:
        """True if both sources are ready."""
        return self._first.is_ready and self._second.is_ready

    @property
    def digest(self) -> str:
        """The digests of both, concatenated."""
        return self._first.digest + self._second.digest

    def skip(self, number: int, digest: str) -> bool:
        """Skips pairs as LineSource.skip() does, in both sources or neither."""
        half = len(digest) // 2
        if not self._first.skip(number, digest[:half]):
            return False
        if not self._second.skip(number, digest[half:]):
            self._first.restart()
            return False
        self.number = number
        return True

    @property
    def is_regular(self) -> bool:
        """True if both can be read again."""
        return self._first.is_regular and self._second.is_regular

    @property
    def share(self) -> float | None:
        """The fraction of the first source that has been read."""
        return self._first.share


TEXT_ENDINGS = (".txt", ".text", ".tsv", ".gz", ".zst")
"""Endings of files of lines, in addition to the endings of the rejected formats."""


def check_is_text(text: str | None, hint: str = "`input=FILE` reads the lines of a file") -> None:
    """Rejects a text that names a file or a folder, or looks like a file name.

    Args:
        hint: how the command reads a file.

    Raises DataError that explains how to read the file, and how to pass its name as a text.
    """
    if text is None or "\n" in text:
        return
    path = Path(text)
    way = f"{hint}; to translate the name itself, use standard input"
    if os.path.isfile(text):
        check_is_lines(text)
        raise DataError(f"the text `{format_value(path)}` is the name of a file", way)
    if os.path.isdir(text) and {"/", os.sep} & set(text):  # a word may happen to be the name of a folder
        raise DataError(
            f"the text `{format_value(path)}` is the name of a folder",
            "commands with `input_dir=` and `output_dir=` read the files of a folder; to translate the name itself, "
            "use standard input",
        )
    if not any(map(str.isspace, text)) and (path.suffix in TEXT_ENDINGS or detect_format(text, b"") is not None):
        raise DataError(f"the text `{format_value(path)}` looks like the name of a file, but no such file exists", way)


def check_is_lines(path: str, head: bytes | None = None) -> None:
    """Raises DataError if a file is a document, a table or an archive instead of lines of text; see `FORMATS`.

    Args:
        head: the first bytes, if known.
    """
    if (found := detect_format(path, head)) is not None:
        raise DataError(
            f"{format_display_name(path)} is {found.name}, but the input must be lines of plain text",
            _prescribe(found),
        )


def _prescribe(found: Format) -> str:
    """Returns what to do with a file that is no text of lines."""
    from pellucid.documents.kinds import NAMES  # it imports the readers

    ways = []
    if found.name in NAMES.values():
        ways.append(f"a translator takes it as a document, by a name that ends in {found.endings[0]}, with `output=`")
    ways.append(found.to_text)
    if found.is_text:
        ways.append("to read its lines unchanged, pipe them: `cat FILE | ...`")
    return "; ".join(ways)


def _open(path: str) -> BinaryIO:
    """Opens a file, without a buffer if it may be a pipe: a thread that waits for a pipe must not hold a lock."""
    if path == "-":
        buffered = open_stdin()
        if not _is_regular(_status(buffered)):
            return cast(BinaryIO, getattr(buffered, "raw", buffered))
        check_is_lines(path, cast(io.BufferedReader, buffered).peek(HEAD))
        return buffered
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise DataError(f"`{format_value(Path(path))}` is a folder, not a text file", "name the file in it")
        check_is_lines(path)
        return open(path, "rb") if _is_regular(status) else cast(BinaryIO, open(path, "rb", buffering=0))
    except FileNotFoundError:
        raise DataError(
            f"no file `{format_value(Path(path))}`", "check the path; a relative path starts at the current directory"
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a file name has no NUL character"
        raise DataError(f"cannot read `{format_value(Path(path))}`: {reason}", "name another file") from error


def _status(file: BinaryIO) -> os.stat_result | None:
    try:
        return os.fstat(file.fileno())
    except (OSError, ValueError):
        return None


def _is_regular(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISREG(status.st_mode)
