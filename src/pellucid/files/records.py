"""Records of files that are made for a request: reused for the same request, refused for another one.

A record is a JSON table with the name of its format. It is written last, so files with a record are complete; with the
SHA-256 of each file, `find_damaged` finds a file that has changed since.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError
from pellucid.files.budget import MOST_SETTINGS_BYTES, read_bytes
from pellucid.files.reading import Kind, hash_file, parse_settings, read_stored_table
from pellucid.files.writing import write_json

MUCH = 1 << 26
"""Bytes that take longer to read than the tick of a file system's clock."""
JUST_NOW = 2.0
"""Seconds: a younger file may change once more and keep its time of change."""

Stamp = tuple[int, int]
"""Size in bytes and time of change in nanoseconds: a file is taken to be unchanged if both are the same."""


@dataclass(frozen=True)
class RecordFormat:
    """A kind of record."""

    name: str
    """For example `pellucid-distilled/1`."""
    kinds: Mapping[str, Kind]
    """The kind of each value that a record must have; it may have others, too."""
    earlier: tuple[str, ...] = ()
    """Names of the same format in earlier versions."""
    most_bytes: int = MOST_SETTINGS_BYTES

    def read(self, path: Path) -> dict[str, Any] | None:
        """Returns the table of the record at `path`; None if the file is missing or damaged, or of another format."""
        try:
            table = parse_settings(read_bytes(path, self.most_bytes), str(path))
        except CheckpointError:
            return None
        if table.get("format") not in (self.name, *self.earlier):
            return None
        return table if all(key in table and kind.fits(table[key]) for key, kind in self.kinds.items()) else None

    def write(self, path: Path, **facts: Any) -> dict[str, Any]:
        """Writes a record of `facts` atomically, and returns its table."""
        table = {"format": self.name, **facts}
        write_json(path, table)
        return table


def find_changed_keys(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """Returns the keys whose values differ between two requests; a key that one of them lacks is None there."""
    return [name for name in {**asked, **stored} if stored.get(name) != asked.get(name)]


def find_damaged(folder: Path, digests: Mapping[str, str]) -> str | None:
    """Returns the first file of `digests` that is missing in a folder or has another SHA-256; None if there is none."""
    for name, digest in digests.items():
        if not (folder / name).is_file() or hash_file(folder / name) != digest:
            return name
    return None


def is_whole(folder: Path, digests: Mapping[str, str], stamps: Path) -> bool:
    """Returns True if the files of a folder have the given SHA-256.

    The files are read the first time, and again if a size or a time of change differs from the file `stamps`.
    """
    try:
        now = {name: [[*read_file_stamp(folder / name)], digest] for name, digest in digests.items()}
        if read_stored_table(stamps) == now:
            return True
        if find_damaged(folder, digests) is not None:
            return False
    except OSError:
        return False
    note_stamps(folder, digests, stamps)
    return True


def note_stamps(folder: Path, digests: Mapping[str, str], stamps: Path) -> None:
    """Writes size and time of change of files with known SHA-256 into the file `stamps`.

    Nothing is written if a file changed a moment ago, unless reading the files took longer than the tick of the clock.
    """
    now = {name: read_file_stamp(folder / name) for name in digests}
    if all(map(is_settled, now.values())) or sum(size for size, _ in now.values()) >= MUCH:
        try:
            write_json(stamps, {name: [now[name], digests[name]] for name in digests})
        except OSError:
            return  # the files of a folder that cannot be written are read each time


def read_file_stamp(path: Path) -> Stamp:
    """Returns the stamp of a file; of a folder, the sum of sizes and the latest time of it and all files in it."""
    found = [path.stat(), *(file.stat() for file in path.rglob("*"))] if path.is_dir() else [path.stat()]
    return sum(each.st_size for each in found), max(each.st_mtime_ns for each in found)


def is_settled(stamp: Stamp) -> bool:
    """Returns True if a file of this stamp cannot change any more without another time of change."""
    return stamp[1] / 1e9 < time.time() - JUST_NOW
