"""A disk that is really full: the real command on a small file system of its own."""

import errno
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.tasks.translator import Translator
from tests.processes import run_python
from tests.properties.test_resume import assert_same_run
from tests.toy_task import metrics, reversed_letters, small_arguments, write_pairs

pytestmark = pytest.mark.slow

SIZE = 9_000_000
SETTINGS = (
    "model.d_model=64", "model.d_ff=128", "train.steps=12", "train.save_every=2", "train.validate_every=3",
    "train.average=3", "train.ema_decay=0.9",
)  # fmt: skip

# Runs the command line; when the metrics of a step are written, the disk is filled, emptied, or a signal comes.
WATCHED = """
import json, os, sys
from pathlib import Path
from pellucid.cli.main import main
from pellucid.training.log import RunLog

acts, write = json.loads(sys.argv[1]), RunLog.write

def fill():
    with open("filler", "ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass

def write_and_act(log, event, now, **values):
    write(log, event, now, **values)
    act = acts.pop(str(now), None) if event == "train" else None
    if act == "fill":
        fill()
    elif act == "free":
        os.remove("filler")
    elif act:
        os.kill(os.getpid(), act)

if acts.get("0") == "fill":
    fill()
RunLog.write = write_and_act
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder of nine megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = mounted.stderr.strip() if mounted.returncode else ""
    except FileNotFoundError as error:
        reason = str(error)
    if reason:
        pytest.skip(f"a file system cannot be mounted here: {reason}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def run(folder: Path, acts: str = "{}") -> subprocess.CompletedProcess[str]:
    """The same command each time."""
    arguments = small_arguments("train.src", "train.tgt", Path("run"), *SETTINGS)
    return run_python("-c", WATCHED, acts, *arguments, "--device", "cpu", cwd=folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    write_pairs(folder, reversed_letters(60))
    done = run(folder)
    assert done.returncode == 0, done.stderr
    return folder


def assert_nothing_half_written(folder: Path) -> None:
    found = [str(path) for path in (folder / "run").rglob("*") if path.name.startswith(".") or ".partial" in path.name]
    assert found == []


def test_it_goes_on_and_catches_up_when_there_is_room_again(disk: Path, undisturbed: Path) -> None:
    write_pairs(disk, reversed_letters(60))
    done = run(disk, '{"3": "fill", "9": "free"}')
    assert done.returncode == 0, done.stderr
    warning = rf"warning: step (\d+): the \S+.* could not be written: {os.strerror(errno.ENOSPC)}, 0\.0 MB free"
    assert [int(step) for step in re.findall(warning, done.stderr)] == [
        3,
        3,
        4,
        6,
        6,
        8,
    ]  # the best, and its checkpoint
    assert done.stderr.count("Free space on the disk of `run`: each later checkpoint tries again.") == 1
    assert "; the last good checkpoint is step 2\n" in done.stderr
    assert "step 9: the disk has free space again, and everything is saved\n" in done.stderr
    assert_same_run(disk, undisturbed)
    assert_nothing_half_written(disk)


@pytest.mark.parametrize(("step", "last"), [(0, 0), (1, 0), (5, 4), (12, 10)])
def test_a_disk_that_stays_full_ends_the_run_and_room_mends_it(
    disk: Path, undisturbed: Path, step: int, last: int
) -> None:
    write_pairs(disk, reversed_letters(60))
    full = run(disk, f'{{"{step}": "fill"}}')
    assert full.returncode == 1, full.stderr
    which = f"the last good checkpoint is step {last}" if last else "there is no checkpoint yet"
    assert f"error: the run in `run` cannot be written: No space left on device, 0.0 MB free; {which}\n" in full.stderr
    assert "Traceback" not in full.stderr
    assert_nothing_half_written(disk)
    if last >= 3:  # its first validation was at step 3
        Translator.load(disk / "run", "cpu")
    (disk / "filler").unlink()
    done = run(disk)
    assert done.returncode == 0, done.stderr
    assert (f"resuming after step {last} of 12\n" in done.stderr) == bool(last)
    assert_same_run(disk, undisturbed)


def test_a_signal_on_a_full_disk_says_what_is_not_saved(disk: Path, undisturbed: Path) -> None:
    write_pairs(disk, reversed_letters(60))
    stopped = run(disk, f'{{"6": "fill", "7": {int(signal.SIGTERM)}}}')
    assert stopped.returncode == 143
    expected = "interrupted by SIGTERM at step 7, which could not be saved; the same command resumes after step 4\n"
    assert stopped.stderr.endswith(expected), stopped.stderr
    (disk / "filler").unlink()
    assert run(disk).returncode == 0
    assert_same_run(disk, undisturbed)
    assert metrics(disk / "run")[-1]["event"] == "candidate"
