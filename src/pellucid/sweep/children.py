"""Processes that train side by side, none of which outlives the one that started them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.errors import legible

LAUNCH = (
    "import sys; from pellucid.process import stop_with_parent; stop_with_parent(int(sys.argv.pop(1))); "
    "from {module} import main; sys.exit(main())"
)
POLL = 0.1  # seconds
MOST_CHARACTERS = 4_000
"""The end of a log in which its last complaint is looked for."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Command:
    """A call of `main` in a module, in a process of its own."""

    module: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """Commands of which each needs the one before, and the file that their messages go to."""

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
    side_by_side: int,
    threads: int,
    on_start: Callable[[Job], None],
    on_end: Callable[[Job, str, float], None],
) -> None:
    """Runs jobs, so many at a time, each with so many threads.

    Args:
        on_end: is given a job, what went wrong ("" where nothing did), and its seconds.

    KeyboardInterrupt, and whatever else ends it, is passed on to the children as SIGINT or SIGTERM, and raised when
    they have saved and ended; a second Ctrl-C reaches them, too, and they stop at once.
    """
    waiting, running = iter(jobs), list[_Child]()
    environment = os.environ | dict.fromkeys(THREADS, str(threads))
    try:
        while True:
            while len(running) < side_by_side and (job := next(waiting, None)) is not None:
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
                on_end(child.job, _trouble(status, child.job.log), time.monotonic() - child.started)
            time.sleep(POLL)
    except BaseException as stop:
        _stop(running, signal.SIGINT if isinstance(stop, KeyboardInterrupt) else signal.SIGTERM)
        raise


def _start(command: Command, log: Path, environment: dict[str, str], mode: str) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-c", LAUNCH.format(module=command.module), str(os.getpid()), *command.arguments]
    with log.open(mode) as file:
        # In a group of its own, so that a Ctrl-C at the terminal comes once: the second one would cut off its saving.
        return subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment, start_new_session=True
        )


def _stop(running: Sequence[_Child], number: int) -> None:
    """Asks the children to stop and waits for them, however often this process itself is asked meanwhile."""
    _send(running, number)
    while any(child.process.poll() is None for child in running):
        try:
            time.sleep(POLL)
        except KeyboardInterrupt:
            _send(running, signal.SIGINT)


def _send(running: Sequence[_Child], number: int) -> None:
    for child in running:
        if child.process.poll() is None:
            child.process.send_signal(number)


def _trouble(status: int, log: Path) -> str:
    """Returns what went wrong in a child in a line, from its log; "" where nothing did."""
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
    return legible(complaint.removeprefix("error: ") or last)
