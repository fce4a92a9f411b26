"""Files that are whole or not there: written beside their place, flushed, then renamed."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DISK_FAILURES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
"""What a full or failing disk answers; more room, or another disk, mends it."""


def is_disk_failure(error: OSError) -> bool:
    """Whether the disk is at fault, not the path or the permissions."""
    return error.errno in DISK_FAILURES


def disk_trouble(error: OSError, folder: Path) -> str:
    """What the disk answered, and how much room it has: `No space left on device, 1.5 MB free`."""
    while not folder.exists():
        folder = folder.parent
    try:
        free = f", {shutil.disk_usage(folder).free / 1e6:,.1f} MB free"
    except OSError:
        free = ""
    return f"{error.strerror}{free}"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to; on success it takes the place of `path`, else it is removed."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        move_into_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def move_into_place(temporary: Path, path: Path) -> None:
    """Has a finished file take the place of `path` in one piece, and for good."""
    flush(temporary)
    os.replace(temporary, path)
    flush(path.parent)


def _umask() -> int:
    """The process's mask of permissions, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 file in one piece."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def flush(path: Path) -> None:
    """Has the operating system put a file, or a folder's entries, on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open folders, and orders renames by itself
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
