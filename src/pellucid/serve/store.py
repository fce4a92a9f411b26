"""The documents and glossaries of a server, in a private folder that several of its processes may share.

Names are random and never a client's. Each entry is a JSON file, and a document has the bytes of its result; both are
written atomically and removed when they are old.
"""

import hmac
import json
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from pellucid.errors import DataError
from pellucid.files.lock import check_unlocked, lock_or_fail
from pellucid.files.writing import atomic_path, write_json
from pellucid.serve.errors import RequestError

_NAME = re.compile(r"[0-9a-f]{32}")


class Store:
    """A folder of entries of one kind.

    Args:
        folder: the folder of the server; None: a temporary one, which `close` removes.
        kind: the name of the kind.
        most: the number of entries at most.
        seconds: the age after which an entry is removed; None: never.
    """

    def __init__(
        self,
        folder: Path | None,
        kind: str,
        most: int,
        seconds: float | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._own = folder is None
        root = Path(mkdtemp(prefix="pellucid-serve-")) if folder is None else folder
        self.folder: Path = root / kind
        self._root = root
        self._most, self._seconds, self._clock = most, seconds, clock
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._locks = ExitStack()
        self._worker: str | None = None

    @property
    def worker(self) -> str:
        """The random name of this process, which holds a lock of that name; empty on a file system without locks."""
        if self._worker is None:  # not before: a server may fork its processes after it made its application
            path = self._lock_path(name := secrets.token_hex(16))
            self._locks.enter_context(lock_or_fail(path, _in_use))
            self._worker = name if _is_locked(path) else ""
        return self._worker

    def has_ended(self, worker: str) -> bool:
        """Returns True if the process with this name as its `worker` has ended, however it ended."""
        return bool(worker) and not _is_locked(self._lock_path(worker))

    def _lock_path(self, worker: str) -> Path:
        return self.folder / f"{worker}.lock"

    def add(self, table: dict[str, Any]) -> str:
        """Writes a new entry, and returns its random name. Raises RequestError if there is no room."""
        self.sweep()
        if sum(1 for _ in self.names()) >= self._most:
            raise RequestError(
                503, "the server stores too many entries; try again later", headers={"Retry-After": "60"}
            )
        name = secrets.token_hex(16)
        self.put(name, {**table, "created": self._clock()})
        return name

    def put(self, name: str, table: dict[str, Any]) -> None:
        """Writes an entry."""
        write_json(self.folder / f"{name}.json", table)

    def get(self, name: str) -> dict[str, Any] | None:
        """Returns an entry; None if there is none of this name, which may be any text of a client."""
        if not _NAME.fullmatch(name):
            return None
        try:
            found: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            return None
        return None if self._is_old(found) else found

    def put_result(self, name: str, data: bytes) -> None:
        """Writes the result of an entry."""
        with atomic_path(self.folder / f"{name}.result") as temporary:
            temporary.write_bytes(data)

    def get_result(self, name: str) -> bytes | None:
        """Returns the result of an entry; None if there is none."""
        if self.get(name) is None:
            return None
        try:
            return (self.folder / f"{name}.result").read_bytes()
        except OSError:
            return None

    def remove(self, name: str) -> bool:
        """Removes an entry. Returns True if there was one."""
        if self.get(name) is None:
            return False
        for path in self.folder.glob(f"{name}.*"):
            path.unlink(missing_ok=True)
        return True

    def names(self) -> Iterator[str]:
        """Yields the names of all entries."""
        for path in self.folder.glob("*.json"):
            if _NAME.fullmatch(path.stem):
                yield path.stem

    def sweep(self) -> None:
        """Removes old entries."""
        if self._seconds is None:
            return
        for path in list(self.folder.iterdir()):
            try:
                if self._clock() - path.stat().st_mtime > self._seconds and not _is_locked(path):
                    path.unlink()
            except OSError:
                pass

    def close(self) -> None:
        """Releases the lock of this process, and removes the folder if it is temporary."""
        self._locks.close()
        if self._own:
            shutil.rmtree(self._root, ignore_errors=True)

    def _is_old(self, table: dict[str, Any]) -> bool:
        return self._seconds is not None and self._clock() - float(table.get("created", 0)) > self._seconds


def _in_use() -> DataError:
    return DataError("another process holds this lock")


def _is_locked(path: Path) -> bool:
    """Returns True if a process, this one included, holds a lock file."""
    if path.suffix != ".lock":
        return False
    try:
        check_unlocked(path, _in_use)
    except DataError:
        return True
    return False


def has_key(table: dict[str, Any], key: str) -> bool:
    """Returns True if a key is that of an entry."""
    return hmac.compare_digest(str(table.get("key", "")).encode(), key.encode("utf-8", "surrogatepass"))
