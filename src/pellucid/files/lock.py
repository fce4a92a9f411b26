"""Locks between processes: one that fails if another process holds it, and one that waits for the other process.

The system frees the lock of a process when the process ends, however it ends.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from pellucid.errors import PellucidError
from pellucid.waits import acquire

WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)
"""Error numbers of a file system without locks, as some network file systems are."""


@contextmanager
def lock_or_fail(path: Path, make_error: Callable[[], PellucidError]) -> Iterator[None]:
    """Holds the lock file `path`, and removes the file at the end.

    Raises the error that `make_error` returns if another process holds the lock. On a file system without locks every
    process enters.
    """
    lock = _acquire_or_fail(path, make_error)
    try:
        yield
    finally:
        # Before the release: a process that has opened the file meanwhile finds it removed, and holds nothing.
        with suppress(OSError):  # Windows removes no file that is locked
            path.unlink(missing_ok=True)
        lock.release()


def check_unlocked(path: Path, make_error: Callable[[], PellucidError]) -> None:
    """Raises the error that `make_error` returns if another process holds the lock file `path`. Writes nothing."""
    if path.is_file():
        with suppress(OSError):  # `lock_or_fail` reports a file that cannot be opened
            _acquire_or_fail(path, make_error).release()


@contextmanager
def lock_or_wait(path: Path, on_wait: Callable[[], object]) -> Iterator[None]:
    """Holds the lock file `path`; if another process holds it, calls `on_wait` and waits. The file stays.

    Raises OSError on a file system without locks.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait()
        acquire(lock)
    try:
        yield
    finally:
        lock.release()


def _acquire_or_fail(path: Path, make_error: Callable[[], PellucidError]) -> FileLock:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise make_error() from error
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
    return lock
