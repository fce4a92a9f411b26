"""The place where what is made of large texts is kept: once for all runs, keyed by what the texts hold.

files.json            the SHA-256 of each text, with the size and the time that it had then
.lock                 held by whoever prepares
<digest>/             what is made of certain texts with certain settings
    made-of.json      which ones, for people
    inspection/       which pairs are used, and what is wrong: see `streamed_inspection`
    tokenizer-<key>/  tokenizers
    ids-<key>/        shards: see `shards`
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pellucid.config import DataConfig
from pellucid.data.cache import cache_folder
from pellucid.data.lines import existing, fingerprint
from pellucid.errors import DataError
from pellucid.files.reading import sha256_of
from pellucid.files.writing import disk_trouble, is_disk_failure, write_json

FILES = "files.json"
LARGE = 1 << 28
"""Texts of so many bytes on the disk, 256 MiB, are prepared into the cache without being asked to."""
MUCH = 1 << 26
"""Bytes that nobody reads within the tick of a file system's clock."""
JUST_NOW = 2.0
"""Seconds: a file that is younger may change once more without showing it by its time."""

Stamp = tuple[int, int]
"""Size and time of a file: as long as they stay, it is taken for what it was."""


def stamp_of(path: Path) -> Stamp:
    """Returns size and time of change, in nanoseconds; of a folder, of all files in it and of itself."""
    found = [path.stat(), *(file.stat() for file in path.rglob("*"))] if path.is_dir() else [path.stat()]
    return sum(each.st_size for each in found), max(each.st_mtime_ns for each in found)


def is_whole(folder: Path, digests: Mapping[str, str], stamps: Path) -> bool:
    """Tells whether the files of a folder are those with the given SHA-256.

    They are read the first time, and whenever size or time are not those of then, which are noted in the file `stamps`.
    """
    try:
        now = {name: stamp_of(folder / name) for name in digests}
    except OSError:
        return False
    try:
        noted = json.loads(stamps.read_text(encoding="utf-8"))
        if {name: (tuple(stamp), digest) for name, (stamp, digest) in noted.items()} == {
            name: (now[name], digests[name]) for name in digests
        }:
            return True
    except (OSError, ValueError, TypeError, AttributeError):
        pass
    if not all((folder / name).is_file() and sha256_of(folder / name) == digest for name, digest in digests.items()):
        return False
    note_stamps(folder, digests, stamps)
    return True


def note_stamps(folder: Path, digests: Mapping[str, str], stamps: Path) -> None:
    """Notes size and time of files that are known to have these SHA-256.

    Not those of a moment ago, unless to read them took longer than a clock needs to go on.
    """
    now = {name: stamp_of(folder / name) for name in digests}
    latest = max((changed for _, changed in now.values()), default=0) / 1e9
    if latest < time.time() - JUST_NOW or sum(size for size, _ in now.values()) >= MUCH:
        try:
            write_json(stamps, {name: [now[name], digests[name]] for name in digests})
        except OSError:
            return  # a folder that cannot be written is read each time


@dataclass(frozen=True)
class Prepared:
    """A folder for what is made of large texts."""

    folder: Path
    say: Callable[[str], object] = str

    @classmethod
    def of(cls, data: DataConfig, say: Callable[[str], object]) -> "Prepared | None":
        """Returns the folder that the settings name, else the cache's for large texts; None for others."""
        if data.prepared:
            return cls(Path(data.prepared), say)
        files = [Path(path) for name in ("src", "tgt") for path in data.files(name)]
        size = sum(stamp_of(path)[0] for path in files if path.exists())
        return cls(cache_folder() / "prepared", say) if size >= LARGE else None

    def digests(self, paths: Sequence[str]) -> dict[str, str]:
        """Returns the SHA-256 of texts: from an earlier time where size and time are still the same.

        Raises DataError for one that is not there, or changes while it is read.
        """
        files = {str(_there(Path(path)).resolve()): path for path in paths}
        noted = self._noted()
        found, missing = {}, []
        for file in files:
            size, changed, digest = noted.get(file, (0, 0, ""))
            if digest and (size, changed) == stamp_of(Path(file)):
                found[file] = digest
            else:
                missing.append(file)
        if missing:
            stamps = {file: stamp_of(Path(file)) for file in missing}
            with ThreadPoolExecutor(min(8, len(missing))) as pool:
                found |= dict(zip(missing, pool.map(fingerprint, missing), strict=True))
            for file in missing:
                if stamp_of(Path(file)) != stamps[file]:
                    raise changed_meanwhile(files[file])
            settled = {f: stamps[f] for f in missing if stamps[f][1] / 1e9 < time.time() - JUST_NOW}
            if settled:
                with self.held(self.folder):
                    write_json(
                        self.folder / FILES, self._noted() | {f: [*stamp, found[f]] for f, stamp in settled.items()}
                    )
        return {path: found[file] for file, path in files.items()}

    def of_texts(self, made_of: Mapping[str, Any]) -> Path:
        """Returns the folder for what is made of certain texts with certain settings."""
        digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
        return self.folder / digest[:24]

    @contextmanager
    def held(self, folder: Path) -> Iterator[None]:
        """Holds a folder here for this process, after waiting for another one that does; says so.

        Raises DataError where the disk is full, or nothing can be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / ".lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                self.say(f"another process prepares these texts in `{folder}`: waiting for it")
                lock.acquire()
            try:
                yield
            finally:
                lock.release()
        except OSError as error:
            if isinstance(error.filename, str) and not Path(error.filename).absolute().is_relative_to(
                self.folder.absolute()
            ):
                raise
            full = is_disk_failure(error)
            reason = disk_trouble(error, folder) if full else error.strerror
            raise DataError(
                f"what is made of the texts cannot be written to `{folder}`: {reason}",
                ("make room, and repeat the command, which goes on from there" if full else "see to its rights")
                + ", or name another folder by `data.prepared`",
                exit_status=1 if full else 2,
            ) from error

    def _noted(self) -> dict[str, tuple[int, int, str]]:
        try:
            table = json.loads((self.folder / FILES).read_text(encoding="utf-8"))
            return {str(path): (int(size), int(changed), str(sha)) for path, (size, changed, sha) in table.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}


def _there(path: Path) -> Path:
    return path if path.is_dir() else existing(path)


def changed_meanwhile(path: str) -> DataError:
    """Returns the error for a text that somebody writes while it is read."""
    return DataError(f"`{path}` has changed while it was read", "wait until it is written, and repeat the command")
