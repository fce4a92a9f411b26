"""A lock that a second process waits for; of the one that refuses it, tests/unit/run/test_lock.py knows more."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from pellucid.errors import ConfigError
from pellucid.files.lock import check_unlocked, lock_or_fail, lock_or_wait

OTHER = """
import sys, time
from pathlib import Path
from pellucid.files.lock import lock_or_wait
with lock_or_wait(Path(sys.argv[1]), str):
    print("held", flush=True)
    time.sleep(0.3)
"""


def taken() -> ConfigError:
    return ConfigError("another process holds it", "wait")


def test_it_is_waited_for_and_the_wait_is_said_once(tmp_path: Path) -> None:
    path, said = tmp_path / "lock", list[str]()
    with lock_or_wait(path, lambda: said.append("waits")):
        assert said == []
    command = [sys.executable, "-c", OTHER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match="another process holds it"):
            check_unlocked(path, taken)
        with lock_or_wait(path, lambda: said.append("waits")):
            assert said == ["waits"]
    assert path.is_file(), "further processes may wait for it"
    check_unlocked(path, taken)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_the_one_that_waits_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with pytest.raises(OSError, match=os.strerror(number)), lock_or_wait(tmp_path / "lock", str):
        pytest.fail("two processes could write the same files")
    with lock_or_fail(tmp_path / "lock", taken):
        check_unlocked(tmp_path / "lock", taken)
