"""Runs the command line again and again in processes of its own that die, or find the disk full, at a given write.

    python -m tests.properties.faults kill|full|broken|chain FOLDER START:STRIDE ARGUMENT...
    python -m tests.properties.faults kill|full|broken|chain FOLDER START:STRIDE make NAME [MODEL]

The boundaries are all operations of Python that change a file or a folder below `run` in FOLDER, in the order in which
they happen: making, removing, renaming, opening for writing, and writing, which stops half-way. For each boundary n a
new process in a new folder dies there (kill), finds no room once (full) or from there on (broken); then the same
command is given again without a fault. With `chain` all happens in one folder: start n dies at its boundary n. One JSON
line each on standard output: what was said, the statuses, and what is left. The first line is of a run without a fault.
Processes are forked, so that torch is imported once.
"""

import errno
import hashlib
import io
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch

import pellucid.cli.train
import pellucid.run.run  # noqa: F401  # before the fork
from pellucid.cli.main import main
from tests.processes import fork
from tests.properties import makers

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"}
FREEING = {"os.remove", "os.rmdir", "os.truncate"}
"""What a full disk does not hinder."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
KILLED = 137
TIME_LIMIT = 120.0


class Fault:
    """Counts boundaries and acts at one of them, or, where it is not to act `once`, at that and all later ones."""

    def __init__(self, at: int, mode: str) -> None:
        self.at = at
        self.mode = mode
        self.count = 0

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """A hook as sys.addaudithook takes it."""
        if event in CHANGES:
            strikes = _concerns_run(event, arguments)
        else:
            strikes = event == "open" and bool(arguments[2] & WRITING) and _is_below_run(arguments[0])
        if strikes:
            self.boundary(event)

    def boundary(self, event: str) -> None:
        """Dies or raises, where it is time."""
        if self.is_now(event):
            self.act()

    def is_now(self, event: str) -> bool:
        """Counts a boundary; whether the fault strikes at it."""
        if self.mode != "kill" and event in FREEING:
            return False
        self.count += 1
        return self.count == self.at or (self.mode == "broken" and 0 < self.at < self.count)

    def act(self) -> None:
        """The fault itself."""
        if self.mode == "kill":
            os._exit(KILLED)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class HalfWritten:
    """A file whose first write is a boundary: a fault leaves half of the data."""

    def __init__(self, file: Any, fault: Fault) -> None:
        self._file = file
        self._fault = fault
        self._written = False

    def write(self, data: Any) -> int:
        """Writes all or, at the fault, half."""
        if not self._written and self._fault.is_now("write"):
            self._file.write(data[: len(data) // 2])
            self._file.flush()
            self._fault.act()
        self._written = True
        return int(self._file.write(data))

    def __enter__(self) -> "HalfWritten":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _is_below_run(path: Any) -> bool:
    return isinstance(path, str | os.PathLike) and Path(path).absolute().is_relative_to(Path("run").absolute())


def _concerns_run(event: str, arguments: tuple[Any, ...]) -> bool:
    # shutil.rmtree() names files relative to a folder that is open; where that lies cannot be told.
    relative_to_handle = event in ("os.remove", "os.rmdir") and arguments[1] >= 0
    return relative_to_handle or _is_below_run(arguments[0])


def in_process(folder: Path, arguments: list[str], at: int, mode: str) -> dict[str, Any]:
    """Gives the command in a forked process with a fault at boundary `at` (0: none)."""
    said = folder / "said.txt"

    def run() -> int:
        os.chdir(folder)
        handle = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 2)
        fault = Fault(at, mode)
        real_open = io.open

        def opened(path: Any, *args: Any, **kwargs: Any) -> Any:
            file = real_open(path, *args, **kwargs)
            return HalfWritten(file, fault) if _is_below_run(path) and file.writable() else file

        io.open = opened  # type: ignore[assignment]  # it is what pathlib calls
        sys.addaudithook(fault.audit)
        status = makers.make(*arguments[1:]) if arguments[0] == "make" else main(arguments)
        sys.stderr.flush()
        (Path("boundaries.txt")).write_text(str(fault.count))
        return status

    child = fork(run)
    status = _waited(child)
    table: dict[str, Any] = {"status": status, "said": said.read_text(encoding="utf-8")}
    if status == 0:
        table["boundaries"] = int((folder / "boundaries.txt").read_text())
    return table


def _waited(child: int) -> int:
    limit = time.monotonic() + TIME_LIMIT
    while time.monotonic() < limit:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


def left(run: Path) -> dict[str, Any]:
    """What a run has left: digests of its model and of what else is the same each time, its metrics but for times."""
    model = run / "model.safetensors"
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.is_file() else []
    tables = [json.loads(line) for line in lines]
    names = sorted(str(path.relative_to(run)) for path in run.rglob("*"))
    others = [path for path in sorted(run.iterdir()) if path.suffix in (".json", ".toml", ".md", ".model")]
    return {
        "model": _digest(model) if model.is_file() else None,
        "others": {path.name: _digest(path) for path in others if path.name != "result.json"},
        "metrics": [{k: v for k, v in t.items() if k not in ("seconds", "tokens_per_second")} for t in tables],
        "names": names,
        "files": {
            str(path.relative_to(run)): _digest(path)
            for path in sorted(run.rglob("*")) if path.is_file() and path.name not in makers.WITH_TIMES
        },
    }  # fmt: skip


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder / "run", ignore_errors=True)
    return folder


def _tell(**table: Any) -> None:
    print(json.dumps(table), flush=True)


def run_all(mode: str, folder: Path, arguments: list[str], start: int, stride: int) -> None:
    """The run without a fault, then one for each boundary from `start` on, `stride` apart."""
    first = in_process(folder, arguments, 0, mode)
    _tell(at=0, again=first, left=left(folder / "run"))
    for at in range(start, first["boundaries"] + 1, stride):
        _emptied(folder)
        struck = in_process(folder, arguments, at, mode)
        again = in_process(folder, arguments, 0, mode)
        _tell(at=at, struck=struck, again=again, left=left(folder / "run"))


def run_chain(folder: Path, arguments: list[str]) -> None:
    """The run without a fault, then one whose start n dies at its boundary n, until it comes to its end."""
    first = in_process(folder, arguments, 0, "kill")
    _tell(at=0, again=first, left=left(folder / "run"))
    at, struck = 1, in_process(_emptied(folder), arguments, 1, "kill")
    while struck["status"] == KILLED:
        at += 1
        struck = in_process(folder, arguments, at, "kill")
    _tell(at=at, again=struck, left=left(folder / "run"))


if __name__ == "__main__":
    torch.optim.SGD([torch.zeros(1)])  # imports half of torch, which each process would have to do anew
    name, where, places, *given = sys.argv[1:]
    if name == "chain":
        run_chain(Path(where), given)
    else:
        run_all(name, Path(where), given, *map(int, places.split(":")))
