"""Atomic file writes: writes a temporary file in the same directory, calls fsync, then renames it. All output of
Pellucid goes through this module. Only regular files are replaced; devices and pipes are written directly."""

import errno
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pellucid.errors import DataError, format_value

if sys.platform != "win32":
    import fcntl

DISK_FAILURES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
"""The errors of a full or failing disk; the remedy is more space, or another disk."""


FULL = 1 << 20
"""A disk with fewer free bytes counts as full: other files need space, too."""


def is_disk_failure(error: OSError) -> bool:
    """Returns True if the disk caused the error, not the path or the permissions."""
    return error.errno in DISK_FAILURES


def describe_disk_error(error: OSError, folder: Path) -> str:
    """Returns the text of a disk error, with the free space: `No space left on device, 1.5 MB free`."""
    if answer := _lack_of_inodes(error, folder):
        return answer
    try:
        folder = next(each for each in (folder, *folder.parents) if each.exists())
        free = f", {shutil.disk_usage(folder).free / 1e6:,.1f} MB free"
    except OSError:
        free = ""
    return f"{error.strerror}{free}"


def _lack_of_inodes(error: OSError, path: Path) -> str:
    """Returns the text for a disk with free space but no free inode, which each file needs; empty for another error."""
    if error.errno != errno.ENOSPC or not hasattr(os, "statvfs"):
        return ""
    with suppress(OSError, StopIteration):
        disk = os.statvfs(next(each for each in (path, *path.parents) if each.exists()))
        if disk.f_files and not disk.f_favail:
            return f"{error.strerror}: no inode is free for another file (`df -i`)"
    return ""


@contextmanager
def workspace(prefix: str = "pellucid-") -> Iterator[Path]:
    """Yields a folder for temporary files, which is removed at the end.

    Raises DataError if none can be created, and for a disk error while the disk for temporary files is full.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
            yield Path(folder)
    except OSError as error:
        place = _temporary_place()
        if place is None:
            reason = error.strerror or str(error)
        elif is_disk_failure(error) and shutil.disk_usage(place).free < FULL:
            reason = describe_disk_error(error, place)
        else:
            raise
        where = f"to `{format_value(place)}`" if place else "anywhere"
        raise DataError(
            f"temporary files cannot be written {where}: {reason}",
            "free disk space there, or set the environment variable TMPDIR to another folder",
            exit_status=1,
        ) from error


def _temporary_place() -> Path | None:
    """Returns the folder for temporary files; None if none is writable."""
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        return None


@contextmanager
def open_output_file(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a user's path for output: a file appears only when it is complete; a device or pipe is written directly.

    A link is kept, and its target is written. Raises DataError if the path cannot be written.
    """
    target = check_writable(path)
    with convert_write_errors(path):
        if _takes_what_comes(target):
            with target.open("wb") as file:
                yield file
        else:
            with atomic_path(target) as temporary, temporary.open("wb") as file:
                yield file


def write_output(path: str | Path, content: bytes | str) -> None:
    """Writes a whole file, text as UTF-8, to a path of the user, as `open_output_file` does."""
    with open_output_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def check_writable(path: str | Path) -> Path:
    """Returns the path with its links resolved. Raises DataError if no file can be written there."""
    with convert_write_errors(path):
        target = _resolve(path)
        if target.is_dir():
            raise _refusal(path, "it is a folder")
        if not target.parent.is_dir():
            raise _refusal(path, f"no folder `{format_value(target.parent)}`")
        with suppress(FileNotFoundError):
            target.lstat()  # a name of 300 characters is refused here, not after hours
    return target


def is_replaceable(path: str | Path) -> bool:
    """Returns True if output to a path creates a regular file, and does not go to a device or a pipe."""
    return not _takes_what_comes(check_writable(path))


def _takes_what_comes(target: Path) -> bool:
    return target.exists() and not target.is_file()


def _resolve(path: str | Path) -> Path:
    try:
        return Path(path).resolve()
    except RuntimeError:  # raised by Python 3.11 and 3.12; in later versions lstat raises
        raise _refusal(path, "its links form a cycle") from None
    except ValueError:
        raise _refusal(path, "a file name has no NUL character") from None


def _refusal(path: str | Path, reason: str) -> DataError:
    return DataError(f"cannot write to `{format_value(Path(path))}`: {reason}", "name a file in a folder that exists")


@contextmanager
def convert_write_errors(path: str | Path, kind: str = "file") -> Iterator[None]:
    """Converts the system's errors in writing a file or a folder to DataError.

    A full disk is a failure, every other error is a mistake in the name.
    """
    try:
        yield
    except BrokenPipeError:  # the reader has closed the pipe, which is allowed
        raise
    except OSError as error:
        if not _is_about(error, path):
            raise
        answer = _lack_of_inodes(error, Path(path)) or error.strerror or str(error)
        message = f"cannot write to `{format_value(Path(path))}`: {answer}"
        if is_disk_failure(error):
            raise DataError(message, f"free disk space, or name another {kind}", exit_status=1) from error
        raise DataError(message, f"name another {kind}") from error


def _is_about(error: OSError, path: str | Path) -> bool:
    """Returns True if an error concerns this output, and not another file that was read meanwhile."""
    if not isinstance(error.filename, str):
        return True
    target = Path(os.path.realpath(path))
    own = {str(path), str(target), str(target.parent), f"{target}.partial"}
    return error.filename in own or error.filename.startswith(str(target.with_name(_make_prefix(target))))


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yields a temporary path to write to; on success it replaces `path`, otherwise it is removed.

    Temporary files of killed processes are removed first.
    """
    remove_stale_files(path)
    handle, temporary = _create(path)
    try:
        yield temporary
        if path.exists():  # keep its permissions; a new file gets the umask's
            temporary.chmod(stat.S_IMODE(path.stat().st_mode) & 0o777)
        replace_atomically(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yields a new working folder in the folder of `path`. It is removed at the end, or, after a kill, at the next
    attempt.
    """
    remove_stale_files(path)
    handle, folder = _create_folder(path)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def remove_stale_files(path: Path) -> None:
    """Removes temporary files of `path` that killed processes have left.

    A process holds a lock on the file that it writes, and the system frees the lock when the process dies: a file that
    can be locked is stale. On Windows, and on file systems without locks, stale files stay.
    """
    if sys.platform == "win32":
        return
    pattern = re.compile(re.escape(_make_prefix(path)) + r"[0-9a-f]{16}\.tmp")
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
            except OSError:  # another process is writing it
                pass
            finally:
                os.close(handle)


def _make_prefix(path: Path) -> str:
    """Returns the prefix of temporary names for `path`; truncated if its name is nearly of the maximum length."""
    return f".{os.fsencode(path.name)[:200].decode('utf-8', 'ignore')}."


def _temporary_name(path: Path) -> str:
    return f"{_make_prefix(path)}{secrets.token_hex(8)}.tmp"


def _create(path: Path) -> tuple[int | None, Path]:
    """Creates an empty file next to `path`. Returns the handle whose lock marks it as in use (None on Windows), and
    its path.
    """
    while True:
        temporary = path.with_name(_temporary_name(path))
        # With this mode the umask applies, which can be read only by changing it for all threads.
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        if sys.platform == "win32":  # Windows cannot rename an open file
            os.close(handle)
            return None, temporary
        with suppress(BlockingIOError):  # another process is removing it
            _hold(handle)
            if os.fstat(handle).st_nlink:
                return handle, temporary
        os.close(handle)


def _create_folder(path: Path) -> tuple[int | None, Path]:
    """Creates an empty folder next to `path`. Returns the same as `_create`."""
    while True:
        folder = path.with_name(_temporary_name(path))
        folder.mkdir()
        if sys.platform == "win32":
            return None, folder
        handle = os.open(folder, os.O_RDONLY)
        with suppress(BlockingIOError):
            return _hold(handle), folder
        os.close(handle)


def _hold(handle: int) -> int:
    """Locks a file or folder that was just created. Raises BlockingIOError if another process is removing it."""
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks: stale files are not removed there either
            pass
    return handle


def replace_atomically(temporary: Path, path: Path) -> None:
    """Replaces `path` by a finished file, atomically and durably."""
    fsync(temporary)
    os.replace(temporary, path)
    fsync(path.parent)


def replace_folder(new: Path, folder: Path, keep: Callable[[Path], bool] = lambda _: False) -> None:
    """Replaces `folder` by a finished folder, and removes the existing one.

    If `keep` returns True for the existing folder, another process was faster: both folders stay.
    """
    try:
        os.replace(new, folder)
    except OSError as error:
        if is_disk_failure(error):  # not caused by the existing folder
            raise
        if keep(folder):
            return
        if folder.is_symlink():
            folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        try:
            os.replace(new, folder)
        except OSError:
            if not keep(folder):
                raise
    fsync(folder.parent)


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, table: object) -> None:
    """Writes a table as indented JSON, atomically."""
    write_text(path, json.dumps(table, indent=2, ensure_ascii=False) + "\n")


def fsync(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open folders, and orders renames by itself
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
