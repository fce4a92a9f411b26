"""Killed at any moment, the same command continues to bit-identical weights: real processes, real signals."""

import signal
import subprocess
from pathlib import Path

import pytest

from pellucid.cli.main import main
from tests.processes import run_python
from tests.toy_task import metrics, reversed_letters, small_arguments, write_pairs

SETTINGS = ("train.steps=15", "train.accumulate=2", "train.save_every=4", "train.validate_every=5", "train.log_every=2")

# Runs the command line; the process sends itself a signal when the metrics of a step are written.
STOPPED = """
import os, sys
from pellucid.cli.main import main
from pellucid.training.log import RunLog

step, number, write = int(sys.argv[1]), int(sys.argv[2]), RunLog.write

def write_and_stop(log, event, now, **values):
    write(log, event, now, **values)
    if (event, now) == ("train", step):
        os.kill(os.getpid(), number)

RunLog.write = write_and_stop
sys.exit(main(sys.argv[3:]))
"""


def arguments() -> list[str]:
    return [*small_arguments("train.src", "train.tgt", Path("run"), *SETTINGS), "--device", "cpu"]


def run(folder: Path, stop: tuple[int, signal.Signals] | None = None) -> subprocess.CompletedProcess[str]:
    """The same command each time, in `folder`; with `stop` it gets a signal at that step."""
    code = ["-c", STOPPED, str(stop[0]), str(int(stop[1]))] if stop else ["-m", "pellucid"]
    return run_python(*code, *arguments(), cwd=folder)


def with_texts(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    write_pairs(folder, reversed_letters(60))
    return folder


def assert_same_run(found: Path, expected: Path) -> None:
    for name in ("model.safetensors", "config.json", "tokenizer.json", "README.md", "recipe.toml"):
        assert (found / "run" / name).read_bytes() == (expected / "run" / name).read_bytes(), name
    assert metrics(found / "run") == metrics(expected / "run")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without an interruption."""
    folder = with_texts(tmp_path_factory.mktemp("unbroken"))
    done = run(folder)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    steps = [(line["event"], line["step"]) for line in metrics(folder / "run") if line["event"] != "train"]
    assert steps == [*(("validation", step) for step in (5, 10, 15)), *[("candidate", 15)] * 3]
    return folder


def test_two_runs_are_equal(unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One was of another process, whose hashes have another seed."""
    monkeypatch.chdir(with_texts(tmp_path))
    assert main(arguments()) == 0
    assert_same_run(tmp_path, unbroken)


@pytest.mark.slow
def test_stopped_again_and_again(unbroken: Path, tmp_path: Path) -> None:
    """Killed before the first checkpoint and between two, interrupted by the terminal and by the system."""
    with_texts(tmp_path)
    resumed = 0
    for step, number, saved in (
        (2, signal.SIGKILL, 0),
        (6, signal.SIGINT, 6),
        (8, signal.SIGHUP, 8),
        (10, signal.SIGTERM, 10),
        (14, signal.SIGKILL, 12),
    ):
        stopped = run(tmp_path, (step, number))
        assert_resumed(stopped.stderr, resumed)
        resumed = saved
        if number == signal.SIGKILL:
            assert stopped.returncode == -number
            continue
        assert (stopped.returncode, stopped.stdout) == (128 + number, "")
        message = f"interrupted by {number.name}; the state is saved, run the same command again to resume\n"
        assert stopped.stderr.endswith(message), stopped.stderr
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert_resumed(done.stderr, resumed)
    assert_same_run(tmp_path, unbroken)


def assert_resumed(said: str, step: int) -> None:
    assert ("resuming" in said) == bool(step), said
    assert not step or f"resuming after step {step} of 15\n" in said, said
