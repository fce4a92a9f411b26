"""Runs training processes in parallel, none of which outlives its parent process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.errors import escape_message
from pellucid.waits import SILENCE, Silence, kill

LAUNCH = (
    "import sys; from pellucid.process import stop_with_parent; stop_with_parent(int(sys.argv.pop(1))); "
    "from {module} import main; sys.exit(main())"
)
POLL = 0.1  # seconds
HANGING = 300.0
"""Seconds without processor time after which a child is killed: it may wait for a lock, a download or a disk."""
MOST_CHARACTERS = 4_000
"""The number of characters at the end of a log that are searched for the last error."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Command:
    """A call of `main` in a module, in a separate process."""

    module: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """Commands that run in order, each only after the one before succeeded, and the file for their output."""

    name: str
    log: Path
    commands: tuple[Command, ...]


@dataclass
class _Child:
    job: Job
    left: list[Command]
    process: subprocess.Popen[bytes]
    started: float


def run_jobs(
    jobs: Iterable[Job],
    max_parallel: int,
    threads: int,
    on_start: Callable[[Job], None],
    on_end: Callable[[Job, str, float], None],
) -> None:
    """Runs jobs, at most `max_parallel` at a time, each with `threads` threads.

    Args:
        on_end: called with a job, its error ("" if it succeeded), and its seconds.

    KeyboardInterrupt is passed on to the children as SIGINT, any other exception as SIGTERM. It is raised again after
    they have saved and ended. A second Ctrl-C is passed on, too, and the children then stop immediately.
    """
    waiting, running, silence = iter(jobs), list[_Child](), Silence(HANGING)
    hanging = set[int]()
    environment = os.environ | dict.fromkeys(THREADS, str(threads))
    try:
        while True:
            while len(running) < max_parallel and (job := next(waiting, None)) is not None:
                on_start(job)
                job.log.parent.mkdir(parents=True, exist_ok=True)
                first, *left = job.commands
                running.append(_Child(job, left, _start(first, job.log, environment, "wb"), time.monotonic()))
            if not running:
                return
            for child in [child for child in running if child.process.poll() is not None]:
                status = child.process.returncode
                if status == 0 and child.left:
                    child.process = _start(child.left.pop(0), child.job.log, environment, "ab")
                    continue
                running.remove(child)
                trouble = _trouble(status, child.job.log)
                if child.process.pid in hanging:
                    trouble = f"used no CPU time for {HANGING:.0f} s and was killed"
                on_end(child.job, trouble, time.monotonic() - child.started)
            for pid in silence.look([child.process.pid for child in running]):
                hanging.add(pid)
                kill(pid)
            time.sleep(POLL)
    except BaseException as stop:
        _stop(running, signal.SIGINT if isinstance(stop, KeyboardInterrupt) else signal.SIGTERM)
        raise


def _start(command: Command, log: Path, environment: dict[str, str], mode: str) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-c", LAUNCH.format(module=command.module), str(os.getpid()), *command.arguments]
    with log.open(mode) as file:
        # In a separate session, so that a Ctrl-C at the terminal arrives once: a second one would interrupt saving.
        return subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment, start_new_session=True
        )


def _stop(running: Sequence[_Child], number: int) -> None:
    """Signals the children to stop and waits for them, even if this process is interrupted again meanwhile.

    A child that has neither ended nor used processor time for SILENCE seconds is killed.
    """
    _send(running, number)
    silence = Silence(SILENCE)
    while left := [child.process for child in running if child.process.poll() is None]:
        try:
            for pid in silence.look([process.pid for process in left]):
                kill(pid)
            time.sleep(POLL)
        except KeyboardInterrupt:
            _send(running, signal.SIGINT)


def _send(running: Sequence[_Child], number: int) -> None:
    for child in running:
        if child.process.poll() is None:
            child.process.send_signal(number)


def _trouble(status: int, log: Path) -> str:
    """Returns the error of a child in one line, from its log; "" if it succeeded."""
    if status == 0:
        return ""
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"ended by {name}" + (", as the system does where memory is short" if name == "SIGKILL" else "")
    said = log.read_bytes()[-MOST_CHARACTERS:].decode("utf-8", "replace").splitlines()
    complaint = next((line for line in reversed(said) if line.startswith("error: ")), "")
    last = next((line for line in reversed(said) if line.strip()), f"exit status {status}")
    return escape_message(complaint.removeprefix("error: ") or last)
