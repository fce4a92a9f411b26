"""An output that a stopped command leaves half-made, and the same command goes on after: `F.partial`, with a manifest.

The partial file holds whole stretches of lines. The manifest beside it says of which command they are (verb, model,
options), and of how many lines of which input: by their digest, so that what is finished is what an uninterrupted
command would have written, byte for byte, or is begun anew.
"""

import hashlib
import json
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

from pellucid.errors import ConfigError, shown
from pellucid.files.writing import flush, move_into_place, refusals_in_words, sweep, write_text

if sys.platform != "win32":
    import fcntl

FORMAT = "pellucid-partial/1"
SECONDS_BETWEEN_RECORDS = 2.0
"""The most that a kill can cost; writing the manifest after each of many small stretches would cost more."""


class Countable(Protocol):
    """A source that counts what is read of it: a LineSource."""

    number: int

    @property
    def digest(self) -> str: ...

    def skip(self, number: int, digest: str) -> bool: ...


@dataclass(frozen=True)
class Reached:
    """The place up to which a source had been read: so many lines, with this digest."""

    number: int
    digest: str

    @classmethod
    def by(cls, source: Countable) -> "Reached":
        """Returns how far it has been read now."""
        return cls(source.number, source.digest)


class TakenError(ConfigError):
    """Is raised where another process writes the same output now."""


def with_versions(command: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what decides an output, with the versions of what computes it."""
    return {"pellucid": version("pellucid"), "torch": version("torch"), **command}


def differing(stored: Mapping[str, Any], command: Mapping[str, Any]) -> list[str]:
    """Returns the names of what differs between two commands."""
    return [name for name in {**stored, **command} if stored.get(name) != command.get(name)]


class PartialOutput:
    """The half-made file, open to be written. What is written counts when it is recorded in the manifest."""

    def __init__(
        self,
        target: Path,
        command: Mapping[str, Any],
        source: Countable,
        *,
        beside: Path | None = None,
        place: Callable[[Path, Path], object] = move_into_place,
    ) -> None:
        """Opens it.

        Args:
            beside: the path whose name it has, with `.partial` behind; None: the target's.
            place: makes the target of the finished file, which is gone then.

        Raises TakenError where another process writes it now.
        """
        beside = beside or target
        self.target = target
        self.path: Path = beside.with_name(f"{beside.name}.partial")
        self.manifest: Path = beside.with_name(f"{beside.name}.partial.json")
        self.command: dict[str, Any] = with_versions(command)
        self.source = source
        self._place = place
        self._recorded_at = time.monotonic()
        self._hash = hashlib.sha256()
        self._bytes = 0
        # What the bytes answer: of the source more may have been taken since.
        self._reached = Reached.by(source)
        self._file = self._held()

    def begin(self, fresh: bool, say: Callable[[str], object]) -> None:
        """Goes on after what is there, or begins anew, and says which where anything was there."""
        table = self._stored()
        reason = "a fresh start was asked for" if fresh else self._other(table) or self._damage(table)
        if table is not None and reason is None:
            if self.source.skip(table["lines"], table["input_sha256"]):
                self._file.truncate(table["bytes"])
                self._file.seek(table["bytes"])
                self._bytes, self._reached = table["bytes"], Reached.by(self.source)
                say(f"going on after line {table['lines']:,}: `{shown(self.path)}` has those before it")
                return
            reason = "the input is another one"
        if self.path.stat().st_size:
            say(f"`{shown(self.path)}` is begun anew: {reason or 'nothing says what it is of'}")
        self._hash = hashlib.sha256()
        self.manifest.unlink(missing_ok=True)
        self._file.seek(0)
        self._file.truncate()

    def write(self, text: str, reached: Reached) -> None:
        """Writes the lines for what had been taken from the source then, and records them now and then."""
        data = text.encode()
        self._file.write(data)
        self._file.flush()
        self._hash.update(data)
        self._bytes += len(data)
        self._reached = reached
        if time.monotonic() - self._recorded_at >= SECONDS_BETWEEN_RECORDS:
            self.record()

    def record(self) -> None:
        """Puts on the disk what has been written, then the manifest that counts it."""
        os.fsync(self._file.fileno())
        table = {
            "format": FORMAT, "command": self.command, "lines": self._reached.number,
            "input_sha256": self._reached.digest,
            "bytes": self._bytes, "output_sha256": self._hash.hexdigest(),
        }  # fmt: skip
        write_text(self.manifest, json.dumps(table, indent=1, ensure_ascii=False) + "\n")
        self._recorded_at = time.monotonic()

    def finish(self) -> None:
        """Has the finished file take the place of the target."""
        if self.target.exists():  # whoever may read it goes on to
            self.path.chmod(stat.S_IMODE(self.target.stat().st_mode) & 0o777)
        if sys.platform == "win32":  # it moves no file that is open
            self._file.close()
        self._place(self.path, self.target)
        self.manifest.unlink(missing_ok=True)
        sweep(self.manifest)
        flush(self.target.parent)
        self._file.close()  # until then it is locked: nobody begins anew what is being placed

    def keep(self, say: Callable[[str], object]) -> None:
        """Keeps what is whole of an output that was stopped, and says how much; of nothing nothing stays."""
        if self._reached.number:
            with suppress(OSError, ValueError):  # on a full disk what was recorded before counts; or it is closed
                self.record()
            say(f"kept: {self._reached.number:,} lines in `{shown(self.path)}`; the same command goes on after them")
        else:
            self.path.unlink(missing_ok=True)
            self.manifest.unlink(missing_ok=True)
        self._file.close()

    def _stored(self) -> dict[str, Any] | None:
        """Returns the manifest, where there is one that can be read, and something that it is of."""
        if not self.path.is_file():
            return None
        try:
            table = json.loads(self.manifest.read_text(encoding="utf-8"))
            is_whole = table["format"] == FORMAT and isinstance(table["command"], dict)
            whole = is_whole and all(type(table[key]) is int and table[key] >= 0 for key in ("lines", "bytes"))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return table if whole else None

    def _other(self, table: dict[str, Any] | None) -> str | None:
        """Says what differs between the command that left it and this one, in words."""
        if table is None or table["command"] == self.command:
            return None
        names = " and ".join(f"`{shown(name)}`" for name in differing(table["command"], self.command)[:5])
        return f"it is of another command, whose {names} differed"

    def _damage(self, table: dict[str, Any] | None) -> str | None:
        """Says in words whether what the manifest counts is there; its hash goes on from there."""
        if table is None:
            return None
        self._file.seek(0)
        left = table["bytes"]
        while left and (data := self._file.read(min(left, 1 << 20))):
            self._hash.update(data)
            left -= len(data)
        return None if self._hash.hexdigest() == table.get("output_sha256") else "it has been changed"

    def _held(self) -> BinaryIO:
        """Returns the file, opened and locked; where disks know no locks, nobody is kept out.

        Raises TakenError where another process writes it now.
        """
        while True:
            with suppress(FileExistsError):
                self.path.open("xb").close()
            file = self.path.open("r+b")
            if sys.platform == "win32":
                return file
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                raise TakenError(
                    f"another process is writing `{shown(self.target)}`",
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
    target: Path, command: Mapping[str, Any], source: Countable, *, fresh: bool, say: Callable[[str], object]
) -> Iterator[PartialOutput]:
    """Opens an output that becomes `target` when its context ends well, and else stays to be gone on with.

    Args:
        command: what decides the output beside the input, as JSON has it.
        fresh: begins anew whatever is there.

    Raises DataError where nothing can be written there, ConfigError where another process does so now.
    """
    with refusals_in_words(target):
        partial = PartialOutput(target, command, source)
        try:
            partial.begin(fresh, say)
            yield partial
            partial.finish()
        except BaseException:
            partial.keep(say)
            raise
