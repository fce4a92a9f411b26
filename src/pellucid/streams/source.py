"""The source of a stream's lines: a file, standard input or a pipe, taken a stretch at a time."""

import hashlib
import io
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast, get_args

from pellucid.config.data import OnBadUtf8
from pellucid.data.lines import decode_line, origin, raw_lines, standard_input
from pellucid.errors import ConfigError, DataError, did_you_mean, shown
from pellucid.streams.arrivals import Arrivals

MOST_LINE_BYTES = 1 << 24
"""The longest line that is answered, 16 MiB: a line is a sentence or a passage, and all of it is held at once."""

PASSED_AT_ONCE = 4096

TEXT = "TEXT"
"""The name that the help has for a text that is given as an argument."""

ON_BAD_UTF8 = get_args(OnBadUtf8)


class LineSource:
    """The lines of a file ("-": standard input), plain or gzip; what is taken is counted and hashed.

    A regular file gives as many lines as are asked for; a pipe or a terminal those that have arrived, so that a program
    that writes a line and waits has its answer.
    """

    def __init__(self, path: str, on_bad_utf8: str = "error", text: str | None = None) -> None:
        """Takes the lines of `text`, if that is given.

        Raises DataError where there is no such file; ConfigError for another `on_bad_utf8`.
        """
        if on_bad_utf8 not in ON_BAD_UTF8:
            raise ConfigError(
                f"`on_bad_utf8={shown(on_bad_utf8)}` is unknown{did_you_mean(on_bad_utf8, ON_BAD_UTF8)}",
                f"choose one of {', '.join(ON_BAD_UTF8)}",
            )
        self.path: str = path if text is None else TEXT
        self.number: int = 0
        """The number of lines that were taken."""
        self._on_bad_utf8 = cast(OnBadUtf8, on_bad_utf8)
        self._hash = hashlib.sha256()
        # What was no UTF-8 on the command line is none here either, and is said like that of a file.
        self._file = _opened(path) if text is None else io.BytesIO(text.encode(errors="surrogateescape") + b"\n")
        self.status: os.stat_result | None = _status(self._file)
        """The system's description of the file; None where it is none."""
        self._start = self._file.tell() if self.is_regular else 0
        self._passed: list[bytes] = []
        self._again: Iterator[bytes] = iter(())
        self._lines: Iterator[bytes] = iter(())
        self._arrivals: Arrivals | None = None
        self._begin()

    def take(self, most: int) -> list[str | None]:
        """Returns the next lines, `most` at most, None for one that is left out; at the end there is none.

        Raises DataError for one that is not UTF-8, or is too long, and for a damaged gzip file.
        """
        lines = []
        for raw in self._take_raw(most):
            lines.append(decode_line(raw, self.number + 1, self.path, self._on_bad_utf8, lambda *_: None))
            self._count(raw)
        return lines

    @property
    def is_ready(self) -> bool:
        """True where take() would not wait for who feeds a pipe."""
        return self.is_regular or (self._arrivals is not None and self._arrivals.is_ready)

    @property
    def digest(self) -> str:
        """The SHA-256 of all lines that were taken."""
        return self._hash.hexdigest()

    def skip(self, number: int, digest: str) -> bool:
        """Passes over so many lines if this is their digest; else stands at the beginning as before. Says which."""
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
        """Stands at the beginning again after lines were passed over."""
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
        """The part of a regular file that has been read, from 0 to 1."""
        if not self.is_regular or self.status is None:
            return None
        length = self.status.st_size - self._start
        return min(1.0, (self._file.tell() - self._start) / length) if length > 0 else 1.0

    def close(self) -> None:
        """Closes the file, if it is not standard input. A pipe that a thread waits for is left to the system."""
        if self.path != "-" and self.is_regular:
            self._file.close()

    def _begin(self) -> None:
        self._lines = raw_lines(self._file, self.path, MOST_LINE_BYTES)

    def _closing(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        yield from lines
        if self.path != "-":
            self._file.close()

    def _take_raw(self, most: int) -> list[bytes]:
        if again := list(islice(self._again, most)):
            return again
        if self.is_regular:
            return list(islice(self._lines, most))
        if self._arrivals is None:  # its thread begins here: until lines are wanted, the process may be copied
            self._arrivals = Arrivals(self._closing(self._lines))
        return self._arrivals.take(most)

    def _count(self, raw: bytes) -> None:
        self.number += 1
        self._hash.update(raw)
        self._hash.update(b"\n")


class PairSource:
    """Two sources side by side: line n of both belongs together."""

    def __init__(self, first: LineSource, second: LineSource) -> None:
        self._first, self._second = first, second
        self.number: int = 0
        """The number of pairs that were taken."""
        self._ended = False

    def take(self, most: int) -> list[tuple[str, str] | None]:
        """Returns the next pairs, `most` at most, None for one of which a side is left out; at the end there is none.

        Raises what LineSource.take() raises; DataError, after the last pair, where one source has more lines.
        """
        if self._ended:
            return self._end()
        # Of a pipe what has arrived is taken, so it leads, and a file brings as many lines.
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
        """Returns nothing more, where both have ended at the same line."""
        for source in (self._first, self._second):
            while source.take(PASSED_AT_ONCE):
                pass
        one, other = self._first, self._second
        if one.number != other.number:
            raise DataError(
                f"{origin(one.path)} and {origin(other.path)} must have as many lines as each other, but "
                f"{origin(one.path)} has {one.number:,} and {origin(other.path)} {other.number:,}",
                "line n of each file must belong to the same sentence",
            )
        return []

    @property
    def is_ready(self) -> bool:
        """True where both are."""
        return self._first.is_ready and self._second.is_ready

    @property
    def digest(self) -> str:
        """The digests of both, one behind the other."""
        return self._first.digest + self._second.digest

    def skip(self, number: int, digest: str) -> bool:
        """Does what LineSource.skip() does, for both or neither."""
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
        """True where both can be read again."""
        return self._first.is_regular and self._second.is_regular

    @property
    def share(self) -> float | None:
        """The part of the first that has been read."""
        return self._first.share


def _opened(path: str) -> BinaryIO:
    """Opens a file, without a buffer where it may be a pipe: a thread that waits for one must hold no lock then."""
    if path == "-":
        buffered = standard_input()
        return buffered if _is_regular(_status(buffered)) else cast(BinaryIO, getattr(buffered, "raw", buffered))
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise DataError(f"`{shown(Path(path))}` is a folder, not a text file", "name the file in it")
        return open(path, "rb") if _is_regular(status) else cast(BinaryIO, open(path, "rb", buffering=0))
    except FileNotFoundError:
        raise DataError(
            f"no file `{shown(Path(path))}`", "check the path; it is relative to the folder you are in"
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no name holds a NUL character"
        raise DataError(f"cannot read `{shown(Path(path))}`: {reason}", "name another file") from error


def _status(file: BinaryIO) -> os.stat_result | None:
    try:
        return os.fstat(file.fileno())
    except (OSError, ValueError):
        return None


def _is_regular(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISREG(status.st_mode)
