"""One process at a time in a folder: who is refused, in which words, and what a dead process leaves."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest
from filelock import FileLock

from pellucid.errors import ConfigError
from pellucid.run.lock import HOLDER, LOCK, lock_folder

# Holds the folder, says so, and waits to be told to go.
OTHER = """
import sys
from pathlib import Path
from pellucid.run.lock import lock_folder

with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """One that holds the folder."""
    command = [sys.executable, "-c", OTHER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield other
        other.kill()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_two_processes_cannot_have_one_folder(tmp_path: Path) -> None:
    with another_process(tmp_path) as other:
        for _ in range(2):
            message = f"another process (number {other.pid}) is training in `{tmp_path}`"
            with pytest.raises(ConfigError, match=f"^{re.escape(message)}$") as error, lock_folder(tmp_path):
                pytest.fail("the lock let a second one in")
            assert error.value.hint == "wait until it has ended, stop it, or choose another `out=`"
        assert names(tmp_path) == {LOCK, HOLDER}
        other.communicate()
        with lock_folder(tmp_path):
            pass
    assert names(tmp_path) == set()


def test_the_lock_of_a_killed_process_is_none(tmp_path: Path) -> None:
    with another_process(tmp_path) as other:
        other.kill()
        other.wait()
        assert names(tmp_path) == {LOCK, HOLDER}
        with lock_folder(tmp_path):
            assert (tmp_path / HOLDER).read_text(encoding="ascii") == f"{os.getpid()}\n"
    assert names(tmp_path) == set()


def test_the_lock_goes_with_its_holder(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), lock_folder(tmp_path):
            raise ZeroDivisionError
        assert names(tmp_path) == set()


def test_a_lock_file_that_was_removed_meanwhile_makes_no_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder before left between the opening here and the locking."""
    import fcntl

    third: list[TextIO] = []
    real = fcntl.flock

    def flock(handle: int, how: int) -> None:
        if not third:
            (tmp_path / LOCK).unlink()
            third.append((tmp_path / LOCK).open("w"))  # a third process has made its own, and holds it
            real(third[0], fcntl.LOCK_EX)
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(ConfigError, match=r"^another process is training in"), lock_folder(tmp_path):
        pass
    third[0].close()
    with (
        lock_folder(tmp_path),
        pytest.raises(ConfigError, match=r"^another process .* is training in"),
        lock_folder(tmp_path),
    ):
        pass


def test_a_full_disk_takes_no_number_but_holds_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    message = rf"^another process is training in `{re.escape(str(tmp_path))}`$"
    with lock_folder(tmp_path), pytest.raises(ConfigError, match=message), lock_folder(tmp_path):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_there_are_no_locks_nobody_is_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    inside = 0
    monkeypatch.setattr(FileLock, "acquire", refuse)
    with lock_folder(tmp_path), lock_folder(tmp_path):
        inside += 1
    assert inside == 1


def test_any_other_failure_is_told(tmp_path: Path) -> None:
    (tmp_path / LOCK).mkdir()
    with pytest.raises(IsADirectoryError), lock_folder(tmp_path):
        pytest.fail("without the lock")
