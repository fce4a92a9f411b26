"""Files that are whole or not there: written beside their place, flushed, then renamed. All that Pellucid writes goes
through here, and nothing but a regular file is ever replaced: a device or a pipe takes what comes."""

import errno
import json
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pellucid.errors import DataError, shown

if sys.platform != "win32":
    import fcntl

DISK_FAILURES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
"""The errors of a full or failing disk; more room, or another disk, mends it."""


def is_disk_failure(error: OSError) -> bool:
    """Tells whether the disk is at fault, not the path or the permissions."""
    return error.errno in DISK_FAILURES


def disk_trouble(error: OSError, folder: Path) -> str:
    """Returns what the disk answered, and how much room it has: `No space left on device, 1.5 MB free`."""
    while not folder.exists():
        folder = folder.parent
    try:
        free = f", {shutil.disk_usage(folder).free / 1e6:,.1f} MB free"
    except OSError:
        free = ""
    return f"{error.strerror}{free}"


@contextmanager
def output(path: str | Path) -> Iterator[BinaryIO]:
    """Opens what a user names for output: a file that is there only when all of it is, or a device or pipe as it is.

    A link stays, and what it points to is written. Raises DataError where nothing can be written there.
    """
    target = writable(path)
    with refusals_in_words(path):
        if _takes_what_comes(target):
            with target.open("wb") as file:
                yield file
        else:
            with replacing(target) as temporary, temporary.open("wb") as file:
                yield file


def write_output(path: str | Path, content: bytes | str) -> None:
    """Writes a whole file, text as UTF-8, where a user names one; as output() does it."""
    with output(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def writable(path: str | Path) -> Path:
    """Returns the path with its links followed. Raises DataError where no file can be."""
    with refusals_in_words(path):
        target = _resolved(path)
        if target.is_dir():
            raise _refusal(path, "it is a folder")
        if not target.parent.is_dir():
            raise _refusal(path, f"there is no folder `{shown(target.parent)}`")
        with suppress(FileNotFoundError):
            target.lstat()  # a name of 300 characters is refused here, not after hours
    return target


def is_replaceable(path: str | Path) -> bool:
    """Tells whether output to a path makes a regular file, and does not go to a device or a pipe."""
    return not _takes_what_comes(writable(path))


def _takes_what_comes(target: Path) -> bool:
    return target.exists() and not target.is_file()


def _resolved(path: str | Path) -> Path:
    try:
        return Path(path).resolve()
    except RuntimeError:  # what Python 3.11 and 3.12 raise; later ones leave it to lstat
        raise _refusal(path, "its links lead round in a circle") from None
    except ValueError:
        raise _refusal(path, "no name holds a NUL character") from None


def _refusal(path: str | Path, reason: str) -> DataError:
    return DataError(f"cannot write to `{shown(Path(path))}`: {reason}", "name a file in a folder that exists")


@contextmanager
def refusals_in_words(path: str | Path, kind: str = "file") -> Iterator[None]:
    """Says in a sentence what the system answers to writing a file, or a folder.

    A full disk is a failure, all else is a mistake in the name.
    """
    try:
        yield
    except BrokenPipeError:  # the reader has had enough, which is its right
        raise
    except OSError as error:
        if not _is_about(error, path):
            raise
        message = f"cannot write to `{shown(Path(path))}`: {error.strerror or error}"
        if is_disk_failure(error):
            raise DataError(message, f"make room, or name another {kind}", exit_status=1) from error
        raise DataError(message, f"name another {kind}") from error


def _is_about(error: OSError, path: str | Path) -> bool:
    """Tells whether an error speaks of this output, and not of another file that was to be read meanwhile."""
    if not isinstance(error.filename, str):
        return True
    target = Path(os.path.realpath(path))
    own = {str(path), str(target), str(target.parent), f"{target}.partial"}
    return error.filename in own or error.filename.startswith(str(target.with_name(_beginning(target))))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path to write to; on success it takes the place of `path`, else it is removed.

    What a killed process has left of an earlier attempt goes first.
    """
    sweep(path)
    handle, temporary = _create(path)
    try:
        yield temporary
        if path.exists():  # whoever may read it goes on to; of a new file the process's mask decides
            temporary.chmod(stat.S_IMODE(path.stat().st_mode) & 0o777)
        move_into_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yields a new folder beside `path` to prepare something in: gone at the end, or, after a kill, at the next
    attempt.
    """
    sweep(path)
    folder = path.with_name(_temporary_name(path))
    folder.mkdir()
    handle = _hold(os.open(folder, os.O_RDONLY)) if sys.platform != "win32" else None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def sweep(path: Path) -> None:
    """Removes what processes that were killed have left of writing `path`.

    A process holds a lock on what it writes, and the system frees it when the process dies: what can be locked belongs
    to nobody. On Windows, and on disks that know no locks, it stays.
    """
    if sys.platform == "win32":
        return
    pattern = re.compile(re.escape(_beginning(path)) + r"[0-9a-f]{16}\.tmp")
    with suppress(OSError):
        for name in filter(pattern.fullmatch, os.listdir(path.parent)):
            left = path.with_name(name)
            handle = os.open(left, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink(missing_ok=True)
            except OSError:  # somebody writes it now
                pass
            finally:
                os.close(handle)


def _beginning(path: Path) -> str:
    """Returns the beginning of temporary files' names for `path`; cut where its name is nearly as long as may be."""
    return f".{os.fsencode(path.name)[:200].decode('utf-8', 'ignore')}."


def _temporary_name(path: Path) -> str:
    return f"{_beginning(path)}{secrets.token_hex(8)}.tmp"


def _create(path: Path) -> tuple[int | None, Path]:
    """Creates an empty file beside `path`, and the handle whose lock says that it is being written; None on Windows."""
    while True:
        temporary = path.with_name(_temporary_name(path))
        # By this mode the process's mask holds, which can be asked for only by changing it under all other threads.
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        if sys.platform == "win32":  # it renames no file that is open
            os.close(handle)
            return None, temporary
        _hold(handle)
        if os.fstat(handle).st_nlink:
            return handle, temporary
        os.close(handle)  # another process has swept it away before it was locked


def _hold(handle: int) -> int:
    if sys.platform != "win32":
        with suppress(OSError):  # a disk that knows no locks: nothing is swept there either
            fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def move_into_place(temporary: Path, path: Path) -> None:
    """Has a finished file take the place of `path` in one piece, and for good."""
    flush(temporary)
    os.replace(temporary, path)
    flush(path.parent)


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 file in one piece."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, table: object) -> None:
    """Writes a table as JSON that people read, too, in one piece."""
    write_text(path, json.dumps(table, indent=2, ensure_ascii=False) + "\n")


def flush(path: Path) -> None:
    """Has the operating system put a file, or a folder's entries, on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open folders, and orders renames by itself
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
