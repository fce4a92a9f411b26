"""The lock of a run folder, and the error for other processes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from pellucid.errors import ConfigError
from pellucid.files.lock import check_unlocked, lock_or_fail

LOCK = ".lock"
HOLDER = ".lock-holder"
"""The id of the process that holds the lock: in a separate file, since on Windows a locked file cannot be read."""


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Locks the folder within the context. Raises ConfigError if another process has locked it."""
    with lock_or_fail(folder / LOCK, partial(_make_error, folder)):
        with suppress(OSError):  # the disk may be full
            (folder / HOLDER).write_text(f"{os.getpid()}\n", encoding="ascii")
        try:
            yield
        finally:
            with suppress(OSError):
                (folder / HOLDER).unlink(missing_ok=True)


def check_free(folder: Path) -> None:
    """Raises ConfigError if another process has locked the folder. Writes nothing."""
    check_unlocked(folder / LOCK, partial(_make_error, folder))


def _make_error(folder: Path) -> ConfigError:
    number = ""
    with suppress(OSError):
        number = (folder / HOLDER).read_text(encoding="ascii", errors="replace").strip()
    holder = f" (number {number})" if number else ""
    return ConfigError(
        f"another process{holder} is training in `{folder}`",
        "wait until it has ended, stop it, or choose another `out=`",
    )
