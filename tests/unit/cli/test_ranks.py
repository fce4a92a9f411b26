"""`--ranks` and `--max-restarts`: who starts whom, what is refused, and one voice for all."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pellucid import waits
from pellucid.cli import ranks
from pellucid.cli.stop_signals import StopRequested
from pellucid.errors import ConfigError, PellucidError
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.ranks import LostRankError
from pellucid.waits import is_running
from tests.toy_task import reversed_letters, small_arguments, write_pairs
from tests.unit.cli.command_line import CommandLine


@pytest.fixture(autouse=True)
def _outside_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("count", "restarts", "starts"), [(None, 0, False), (1, 0, False), (2, 0, True), (None, 1, True), (1, 3, True)]
)
def test_who_starts_others(count: int | None, restarts: int, starts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ranks.should_start_ranks(count, restarts) == starts
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", str(count or 1))
    assert not ranks.should_start_ranks(count, restarts), "a rank trains"


def test_what_torchrun_contradicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError) as error:
        ranks.should_start_ranks(3, 0)
    assert str(error.value) == "torchrun has started 2 processes for this training, but --ranks is 3"


def test_a_verb_for_one_process(pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = pellucid("distill", "teacher", "--src", "a", "--tgt", "b", "--out", "run")
    assert (said.status, said.error) == (
        2,
        "torchrun has started 2 processes of `pellucid distill`, which runs in one process",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ranks", "0"), "--ranks 0 must be at least 1"),
        (("--ranks", "-2"), "--ranks -2 must be at least 1"),
        (("--max-restarts", "-1"), "--max-restarts -1 must be at least 0"),
    ],
)
def test_numbers_that_cannot_be(pellucid: CommandLine, options: tuple[str, str], message: str) -> None:
    said = pellucid("train", "--src", "a", "--tgt", "b", "--out", "run", *options)
    assert (said.status, said.error) == (2, message)


@pytest.mark.parametrize(
    ("failures", "status", "said"),
    [
        ({0: (10, 2), 1: (11, 2)}, 2, ""),
        ({0: (10, 1), 1: (11, -signal.SIGTERM)}, 1, ""),
        ({0: (10, 143), 1: (11, 143)}, 143, ""),
        ({0: (10, 1), 1: (11, -signal.SIGKILL)}, 1, "rank 1 (process 11) was ended by SIGKILL\n"),
        ({1: (11, -signal.SIGSEGV)}, 1, "rank 1 (process 11) was ended by SIGSEGV\n"),
    ],
)
def test_the_status_of_the_launcher(
    failures: dict[int, tuple[int, int]], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ranks._choose_status(failures) == status
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("error", "of_first", "of_others"),
    [
        (TrainingInterrupted(15, 3, 3), TrainingInterrupted, 143),
        (StopRequested(signal.SIGTERM), StopRequested, 143),
        (LostRankError("rank 2 has died"), LostRankError, LostRankError),
        (LostRankError("rank 2 has died", speaks=False), 1, 1),
        (ConfigError("no"), ConfigError, 2),
        (PellucidError("no"), PellucidError, 1),
    ],
)
def test_one_rank_speaks(
    error: BaseException, of_first: object, of_others: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("WORLD_SIZE", "2"), ("MASTER_ADDR", "x"), ("MASTER_PORT", "1"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pellucid.training.ranks.ASKED", 0.0)
    for rank, expected in (("0", of_first), ("1", of_others)):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(SystemExit if isinstance(expected, int) else type(error)) as raised, ranks.report_once():
            raise error
        if isinstance(expected, int):
            assert isinstance(raised.value, SystemExit)
            assert raised.value.code == expected


@pytest.mark.slow
def test_a_mistake_is_told_once_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    src, tgt = write_pairs(tmp_path, reversed_letters(10))
    words = [sys.executable, "-m", "pellucid", *small_arguments(src, tgt, tmp_path / "run"), "--ranks", "2"]
    done = subprocess.run(
        [*words, "--set", "train.stepz=3"], capture_output=True, text=True, check=False,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown key `stepz`")
    assert done.stderr.count("error") == done.stderr.count("hint: ") == 1
    assert "stopped" not in done.stderr
    assert not (tmp_path / "run").exists()
    assert [*(tmp_path / "tmp").iterdir()] == []


RANK = """
import os, sys, time
from pathlib import Path
from pellucid.cli.ranks import end_with_launcher

end_with_launcher()
Path(sys.argv[1]).touch()
time.sleep(100)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for a signal")
def test_a_rank_ends_with_its_launcher_however_early(tmp_path: Path) -> None:
    """It has imported nothing, joined nobody, and is stopped."""
    folder = tmp_path / ".pellucid-ranks.0.tmp"
    folder.mkdir()
    source, end = os.pipe()
    if (launcher := os.fork()) == 0:
        environment = os.environ | {
            "TORCHELASTIC_RUN_ID": "x", ranks.LAUNCHER: str(os.getpid()), ranks.FOLDER: str(folder)
        }  # fmt: skip
        child = subprocess.Popen([sys.executable, "-c", RANK, tmp_path / "ready"], env=environment)
        os.write(end, str(child.pid).encode())
        signal.pause()
    os.close(end)
    rank = int(os.read(source, 20))
    os.close(source)
    until = time.monotonic() + 60
    while not (tmp_path / "ready").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert is_running(rank)
    os.kill(rank, signal.SIGSTOP)
    os.kill(launcher, signal.SIGKILL)
    os.waitpid(launcher, 0)
    while is_running(rank) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_running(rank)


def test_the_folder_of_a_dead_launcher_goes(tmp_path: Path) -> None:
    ours, other = tmp_path / ".pellucid-ranks.0.tmp", tmp_path / "other"
    for folder in (ours, other):
        folder.mkdir()
        ranks._tidy_after(os.getppid(), folder)
    assert ours.exists(), "its launcher lives"
    for folder in (ours, other):
        ranks._tidy_after(-1, folder)
    assert not ours.exists()
    assert other.exists()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes in /proc")
def test_a_rank_that_is_stopped_before_it_has_joined_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "STOPPED", 0.2)
    monkeypatch.setattr(waits, "LOOK", 0.05)
    stopped, waiting = (subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2))
    ended = threading.Event()
    thread = threading.Thread(target=ranks._end_stopped_ranks, args=(ended,))
    try:
        os.kill(stopped.pid, signal.SIGSTOP)
        thread.start()
        assert stopped.wait(10) == -signal.SIGKILL
        assert waiting.poll() is None, "one that waits for the others uses no processor time, and is not stopped"
    finally:
        ended.set()
        thread.join(10)
        for process in (stopped, waiting):
            process.kill()
            process.wait(10)
