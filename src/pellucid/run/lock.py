"""One process at a time in a run folder, and a sentence for the others."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from pellucid.errors import ConfigError

LOCK = ".lock"
HOLDER = ".lock-holder"
"""The number of the process that holds the lock. Beside it, as Windows lets nobody read a file that is locked."""
WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)
"""The answers of a disk that knows no locks, as some in networks."""


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Holds the folder for this process; the system frees what a process that dies has held.

    Raises ConfigError at once where another process holds it. Where the disk knows no locks, nobody is kept out.
    """
    lock = _acquire(folder)
    with suppress(OSError):  # on a full disk it goes without a number
        (folder / HOLDER).write_text(f"{os.getpid()}\n", encoding="ascii")
    try:
        yield
    finally:
        # While it is held: a process that has opened the file in the meantime sees that it is gone, and holds nothing.
        for name in (HOLDER, LOCK):
            with suppress(OSError):  # Windows removes no file that is locked
                (folder / name).unlink(missing_ok=True)
        lock.release()


def check_free(folder: Path) -> None:
    """Raises ConfigError where another process holds the folder. Writes nothing."""
    if (folder / LOCK).is_file():
        with suppress(OSError):  # what cannot be opened is said when it is to be held
            _acquire(folder).release()


def _acquire(folder: Path) -> FileLock:
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ConfigError(
            f"another process{_holder(folder)} is training in `{folder}`",
            "wait until it has ended, stop it, or choose another `out=`",
        ) from error
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
    return lock


def _holder(folder: Path) -> str:
    with suppress(OSError):
        if number := (folder / HOLDER).read_text(encoding="ascii", errors="replace").strip():
            return f" (number {number})"
    return ""
