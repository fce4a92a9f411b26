"""Waits for other processes with a timeout, and distinguishes a slow process from a hanging one.

A process counts as alive while it or its children use processor time: a busy process uses some even on a loaded
machine, a stopped or blocked process uses none. The silent time is measured in the waiting process, so that time during
which the machine was suspended does not count.

`tests/project/test_limits.py` checks that no other module waits without a timeout.
"""

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any, Protocol, cast

SILENCE = 40.0
"""Seconds without a sign of life after which a process counts as hanging."""
ENDING = 10.0
"""Seconds to wait for a killed process. A process that the kernel cannot end, as on a lost disk, is abandoned."""
LOOK = 1.0
"""Seconds between two checks of a process."""
LOCKED = 86_400.0
"""Seconds to wait for another process's lock, enough for preparing a large corpus."""


class _Process(Protocol):
    """A child process: `subprocess.Popen` or `multiprocessing.Process`."""

    @property
    def pid(self) -> int | None: ...

    def kill(self) -> None: ...


class _Lock(Protocol):
    """A lock between processes, such as `filelock.FileLock`."""

    def acquire(self, timeout: float | None = None) -> Any: ...


def is_running(pid: int) -> bool:
    """Returns True if a process of this machine is running or stopped, False if it has ended."""
    with suppress(OSError, IndexError):
        return _fields(pid)[0] != "Z"
    if sys.platform == "linux":
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def find_stopped_children() -> list[int]:
    """Returns the children of this process's main thread that a signal (SIGSTOP) has stopped; empty outside Linux."""
    with suppress(OSError):
        pid = os.getpid()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        return [int(child) for child in children if _is_stopped(int(child))]
    return []


def _is_stopped(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return _fields(pid)[0] in "Tt"
    return False


def processor_seconds(pid: int) -> float | None:
    """Returns the processor time that a process and its children have used, in seconds.

    Returns None on Windows, and for a process that is gone.
    """
    if sys.platform == "linux":
        return _processor_seconds(pid)
    if sys.platform == "win32":
        return None
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        said = subprocess.run(
            ["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=True, timeout=ENDING
        ).stdout  # [days-]hours:minutes:seconds
        days, _, rest = said.strip().rpartition("-")
        seconds = 0.0
        for part in rest.split(":"):
            seconds = 60 * seconds + float(part)
        return 86_400 * int(days or 0) + seconds
    return None


def _processor_seconds(pid: int) -> float | None:
    try:
        # utime, stime, cutime, cstime: the latter two are the times of children that have ended.
        ticks = sum(map(int, _fields(pid)[11:15]))
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except (OSError, IndexError, ValueError):
        return None
    found = ticks / os.sysconf("SC_CLK_TCK")
    return found + sum(_processor_seconds(int(child)) or 0.0 for child in children)


def _fields(pid: int) -> list[str]:
    """Returns the fields of /proc/PID/stat after the name; the first is the state."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    return stat.rpartition(")")[2].split()


class Silence:
    """Measures how long processes have given no sign of life."""

    def __init__(self, limit: float) -> None:
        """`limit`: the seconds of silence after which a process counts as hanging."""
        self.limit: float = limit
        self._looked = time.monotonic()
        self._used: dict[int, float | None] = {}
        self._silent: dict[int, float] = {}

    def heard(self, pid: int) -> None:
        """Records a sign of life other than processor time, such as an answer."""
        self._silent[pid] = 0.0

    def look(self, pids: Iterable[int]) -> list[int]:
        """Returns the hanging processes. Call it at least every LOOK seconds with all processes that should be busy."""
        now = time.monotonic()
        passed = now - self._looked
        if passed < LOOK:
            return []
        self._looked = now
        used = {pid: processor_seconds(pid) for pid in pids}
        for pid, seconds in used.items():
            lives = seconds is None or self._used.get(pid) != seconds
            # If the check is late, this process was stopped or busy, too.
            self._silent[pid] = 0.0 if lives else self._silent.get(pid, 0.0) + min(passed, 2 * LOOK)
        self._used = used
        return [pid for pid in used if self._silent[pid] > self.limit]


def wait_for_readable(connections: Sequence[Connection], seconds: float) -> list[Connection]:
    """Returns the connections that are readable or whose other end is closed; waits at most `seconds`."""
    return cast(list[Connection], wait(list(connections), seconds))


def limit_connection(connection: Connection, seconds: float) -> None:
    """Sets a timeout on one end of a two-way pipe: after `seconds` without a byte, reads and writes raise
    BlockingIOError.

    The timeout is for a process that is stopped in the middle of a message. Windows has no such timeout.
    """
    if sys.platform == "win32":
        return
    whole, part = divmod(seconds, 1)
    value = struct.pack("ll", int(whole), int(part * 1_000_000))
    with socket.socket(fileno=os.dup(connection.fileno())) as each:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


def end(process: _Process, seconds: float = ENDING) -> bool:
    """Waits for a child to end, kills it after `seconds`, and returns True if it is gone."""
    if _has_ended(process, seconds):
        return True
    process.kill()
    return _has_ended(process, ENDING)


def _has_ended(process: Any, seconds: float) -> bool:
    if isinstance(process, subprocess.Popen):
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
    process.join(seconds)
    return process.exitcode is not None


def reap(pid: int, seconds: float = ENDING) -> None:
    """Waits for a forked child that ends at once, and kills it after `seconds`."""
    until = time.monotonic() + seconds
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > until:
            kill(pid)
            until += ENDING
        time.sleep(0.0005)


def read_line(process: subprocess.Popen[str], stream: IO[str], seconds: float) -> str:
    """Returns the next line that a child writes, or "" if it has ended or was killed after `seconds` without a line."""
    watch = threading.Timer(seconds, process.kill)
    watch.daemon = True
    watch.start()
    try:
        return stream.readline()
    finally:
        watch.cancel()


def acquire(lock: _Lock, seconds: float = LOCKED) -> None:
    """Acquires a lock that another process may hold, within `seconds`. Raises the lock's own error, such as Timeout."""
    lock.acquire(timeout=seconds)


def kill(pid: int) -> None:
    """Kills a process, if the system permits it."""
    with suppress(OSError):
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
