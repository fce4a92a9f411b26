"""Resumable output files: an interrupted command leaves `F.partial` and a manifest, and the same command resumes it.

The partial file contains whole chunks of lines. The manifest next to it records the command (verb, model, options), and
the number and the digest of the input lines. The finished output is therefore identical, byte for byte, to that of an
uninterrupted command, or the output is started again.
"""

import hashlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from pellucid.config.tables import rename_options
from pellucid.errors import ConfigError, format_value
from pellucid.files.reading import COUNT, TABLE, TEXT
from pellucid.files.records import RecordFormat, find_changed_keys
from pellucid.files.writing import convert_write_errors, fsync, remove_stale_files, replace_atomically

if sys.platform != "win32":
    import fcntl

FORMAT = RecordFormat(
    "pellucid-partial/1",
    {"command": TABLE, "lines": COUNT, "input_sha256": TEXT, "bytes": COUNT, "output_sha256": TEXT},
)
SECONDS_BETWEEN_RECORDS = 2.0
"""Seconds of work at most that a kill loses; writing the manifest after each small chunk would be slower."""


class PositionedSource(Protocol):
    """A source that counts the lines read from it: a LineSource."""

    number: int

    @property
    def digest(self) -> str: ...

    def skip(self, number: int, digest: str) -> bool: ...


@dataclass(frozen=True)
class StreamPosition:
    """The position up to which a source had been read: the number of lines and their digest."""

    number: int
    digest: str

    @classmethod
    def from_source(cls, source: PositionedSource) -> "StreamPosition":
        """Returns the current position of a source."""
        return cls(source.number, source.digest)


class OutputLockedError(ConfigError):
    """Raised if another process is writing the same output."""


def add_versions(command: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that determine an output, with the versions of Pellucid and torch."""
    return {"pellucid": version("pellucid"), "torch": version("torch"), **command}


class PartialOutput:
    """The partial file, open for writing. Written lines count only after they are recorded in the manifest."""

    def __init__(
        self,
        target: Path,
        command: Mapping[str, Any],
        source: PositionedSource,
        *,
        base: Path | None = None,
        place: Callable[[Path, Path], object] = replace_atomically,
    ) -> None:
        """Opens the partial file.

        Args:
            base: the path to which `.partial` is appended; None: the target's path.
            place: creates the target from the finished file and removes the latter.

        Raises OutputLockedError if another process is writing it.
        """
        base = base or target
        self.target = target
        self.path: Path = base.with_name(f"{base.name}.partial")
        self.manifest: Path = base.with_name(f"{base.name}.partial.json")
        self.command: dict[str, Any] = add_versions(command)
        self.source = source
        self._place = place
        self._recorded_at = time.monotonic()
        self._hash = hashlib.sha256()
        self._bytes = 0
        # The position that the written bytes correspond to: more may have been read from the source since.
        self._reached = StreamPosition.from_source(source)
        self._file = self._open_locked()

    def begin(self, fresh: bool, log_line: Callable[[str], object]) -> None:
        """Resumes an existing partial file or starts again, and logs which of the two if there was a file."""
        table = FORMAT.read(self.manifest) if self.path.is_file() else None
        reason = "a fresh start was requested" if fresh else self._other(table) or self._damage(table)
        if table is not None and reason is None:
            if self.source.skip(table["lines"], table["input_sha256"]):
                self._file.truncate(table["bytes"])
                self._file.seek(table["bytes"])
                self._bytes, self._reached = table["bytes"], StreamPosition.from_source(self.source)
                log_line(f"resuming after line {table['lines']:,}: `{format_value(self.path)}` has the lines before it")
                return
            reason = "the input differs"
        if self.path.stat().st_size:
            log_line(f"`{format_value(self.path)}` is started over: {reason or 'it has no record'}")
        self._hash = hashlib.sha256()
        self.manifest.unlink(missing_ok=True)
        self._file.seek(0)
        self._file.truncate()

    def write(self, text: str, reached: StreamPosition) -> None:
        """Writes the output up to the source position `reached`, and records it from time to time."""
        data = text.encode()
        self._file.write(data)
        self._file.flush()
        self._hash.update(data)
        self._bytes += len(data)
        self._reached = reached
        if time.monotonic() - self._recorded_at >= SECONDS_BETWEEN_RECORDS:
            self.record()

    def record(self) -> None:
        """Flushes the written data to disk, then writes the manifest that counts it."""
        os.fsync(self._file.fileno())
        FORMAT.write(
            self.manifest, command=self.command, lines=self._reached.number, input_sha256=self._reached.digest,
            bytes=self._bytes, output_sha256=self._hash.hexdigest(),
        )  # fmt: skip
        self._recorded_at = time.monotonic()

    def finish(self) -> None:
        """Replaces the target with the finished file."""
        if self.target.exists():  # keeps its permissions
            self.path.chmod(stat.S_IMODE(self.target.stat().st_mode) & 0o777)
        if sys.platform == "win32":  # an open file cannot be moved there
            self._file.close()
        self._place(self.path, self.target)
        self.manifest.unlink(missing_ok=True)
        remove_stale_files(self.manifest)
        fsync(self.target.parent)
        self._file.close()  # it is locked until then, so that no other process restarts it

    def keep(self, log_line: Callable[[str], object]) -> None:
        """Keeps the complete lines of an interrupted output and logs their number; removes an empty file."""
        if self._reached.number:
            with suppress(OSError, ValueError):  # on a full disk the previous record counts; or the file is closed
                self.record()
            log_line(
                f"kept {self._reached.number:,} lines in `{format_value(self.path)}`; run the same command again to "
                "resume after them"
            )
        else:
            self.path.unlink(missing_ok=True)
            self.manifest.unlink(missing_ok=True)
        self._file.close()

    def _other(self, table: dict[str, Any] | None) -> str | None:
        """Returns a description of the difference between the command that left the file and this one, or None."""
        if table is None:
            return None
        stored, asked = rename_options(table["command"]), rename_options(self.command)
        if stored == asked:
            return None
        names = " and ".join(f"`{format_value(name)}`" for name in find_changed_keys(stored, asked)[:5])
        return f"it is from another command with other {names}"

    def _damage(self, table: dict[str, Any] | None) -> str | None:
        """Returns a description of the damage, if the file differs from the manifest; the hash continues from there."""
        if table is None:
            return None
        self._file.seek(0)
        left = table["bytes"]
        while left and (data := self._file.read(min(left, 1 << 20))):
            self._hash.update(data)
            left -= len(data)
        return None if self._hash.hexdigest() == table["output_sha256"] else "it was changed"

    def _open_locked(self) -> BinaryIO:
        """Returns the file, opened and locked; on file systems without locks, other processes are not excluded.

        Raises OutputLockedError if another process is writing it, ConfigError if its path is a link or a pipe.
        """
        while True:
            with suppress(FileExistsError):
                self.path.open("xb").close()
            try:
                mode = self.path.lstat().st_mode
            except FileNotFoundError:  # another process has finished it in the meantime
                continue
            if not stat.S_ISREG(mode):  # the target of a link must not be written
                raise ConfigError(
                    f"`{format_value(self.path)}` is not a regular file, but the partial output is written there",
                    "remove it, or name another output",
                )
            file = self.path.open("r+b")
            if sys.platform == "win32":
                return file
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                raise OutputLockedError(
                    f"another process is writing `{format_value(self.target)}`",
                    "wait until it has ended, or name another file",
                ) from None
            except OSError:
                return file
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                    return file
            file.close()  # another process has finished it in the meantime


@contextmanager
def partial_output(
    target: Path,
    command: Mapping[str, Any],
    source: PositionedSource,
    *,
    fresh: bool,
    log_line: Callable[[str], object],
) -> Iterator[PartialOutput]:
    """Opens an output that becomes `target` when its context exits normally; after an error the partial output is kept
    and can be resumed.

    Args:
        command: the settings that determine the output in addition to the input, as JSON values.
        fresh: If True, discards an existing partial output.

    Raises DataError if the target cannot be written, ConfigError if another process is writing it.
    """
    with convert_write_errors(target):
        partial = PartialOutput(target, command, source)
        try:
            partial.begin(fresh, log_line)
            yield partial
            partial.finish()
        except BaseException:
            partial.keep(log_line)
            raise
