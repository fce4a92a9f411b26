"""Programs that draw a run's numbers: which are wanted, what they are given, once, and what one that fails ends."""

import contextlib
import json
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import TrainConfig
from pellucid.errors import ConfigError
from pellucid.run.run import Run
from pellucid.training import trackers
from pellucid.training.log import RunLog
from tests.processes import run_python
from tests.toy_task import reversed_letters, small_arguments, small_recipe, write_pairs

ALL = ("tensorboard", "trackio", "mlflow")


@pytest.mark.parametrize(
    ("switch", "log_to", "found"),
    [
        ("", (), []), ("auto", ("mlflow", "tensorboard"), ["tensorboard", "mlflow"]), ("on", (), ["tensorboard"]),
        ("1", ("mlflow",), ["tensorboard", "mlflow"]), ("OFF", ALL, ["trackio", "mlflow"]), ("0", (), []),
    ],
)  # fmt: skip
def test_what_is_wanted(
    monkeypatch: pytest.MonkeyPatch, switch: str, log_to: tuple[str, ...], found: list[str]
) -> None:
    monkeypatch.setenv("PELLUCID_TENSORBOARD", switch)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert trackers.wanted(log_to) == found


def test_what_is_wanted_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"^the run's numbers are to go to mlflow, which is not installed$") as error:
        trackers.wanted(["mlflow"])
    assert "[mlflow]" in error.value.hint
    monkeypatch.setenv("PELLUCID_TENSORBOARD", "maybe")
    with pytest.raises(ConfigError, match=r"^`PELLUCID_TENSORBOARD` in the environment \(maybe\) must be auto, on or"):
        trackers.wanted([])


def test_a_run_says_so_before_it_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(40))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="are to go to trackio, which is not installed"):
        Run(small_recipe(src, tgt, "train.log_to=trackio"), tmp_path / "run", device="cpu", quiet=True)
    assert not (tmp_path / "run").exists()


def test_the_setting() -> None:
    assert TrainConfig().log_to == ()
    assert TrainConfig(log_to="mlflow").log_to == ("mlflow",)
    assert tuple(trackers.KINDS) == ALL
    with pytest.raises(
        ConfigError, match=r"^`log_to` \(wandb\) must be one or several of tensorboard, trackio, mlflow$"
    ):
        TrainConfig(log_to=("mlflow", "wandb"))


class Board:
    """Stands in for a program."""

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        self.given: list[Any] = []
        self.finished: bool | None = None
        self.error: Exception | None = None

    def write(self, numbers: trackers.Numbers, step: int) -> None:
        if self.error is not None:
            raise self.error
        self.given += [(name, value, step) for name, value in numbers.items()]

    def close(self, finished: bool) -> None:
        self.finished = finished


@pytest.fixture
def boards(monkeypatch: pytest.MonkeyPatch) -> list[Board]:
    """The programs of each log that the test opens."""
    opened: list[Board] = []

    def open_board(folder: Path, record: dict[str, Any]) -> Board:
        opened.append(Board(folder, record))
        return opened[-1]

    monkeypatch.setattr(trackers, "KINDS", {"tensorboard": open_board, "mlflow": open_board})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    return opened


def test_numbers_alone_are_given(tmp_path: Path, boards: list[Board], capsys: pytest.CaptureFixture[str]) -> None:
    log = RunLog(tmp_path, 10, log_to=("mlflow",))
    log.write("train", 7, loss=0.5, tokens=9, bleu=None, text="x", worst=float("nan"), each=[1, 2])
    log.write("candidate", 7, loss=0.5)
    log.close()
    assert boards[0].given == [("train/loss", 0.5, 7), ("train/tokens", 9.0, 7)]
    assert boards[0].finished
    assert capsys.readouterr().err == "the run's numbers go to mlflow, too\n"


def test_a_resumed_run_gives_each_step_once_and_a_new_program_all(tmp_path: Path, boards: list[Board]) -> None:
    first = RunLog(tmp_path, 10, quiet=True, log_to=("mlflow",))
    for step in (1, 2, 3):
        first.write("train", step, loss=float(step))
    first.write("validation", 3, loss=9.0)
    with pytest.raises(KeyboardInterrupt), contextlib.closing(first):
        raise KeyboardInterrupt
    assert not boards[0].finished
    second = RunLog(tmp_path, 10, quiet=True, log_to=("mlflow", "tensorboard"))
    second.resume_at(2)
    for step in (3, 4):
        second.write("train", step, loss=float(step))
    board, mlflow = boards[1:]
    assert mlflow.given == [("train/loss", 4.0, 4)]
    assert [step for _, _, step in board.given] == [1, 2, 3, 4]
    record = json.loads((tmp_path / "trackers.json").read_text(encoding="utf-8"))
    assert record["mlflow"] == {"given": {"train": 4, "validation": 3}}


def test_one_that_fails_ends_nothing_else(
    tmp_path: Path, boards: list[Board], capsys: pytest.CaptureFixture[str]
) -> None:
    log = RunLog(tmp_path, 10, log_to=("tensorboard", "mlflow"))
    boards[0].error = OSError(28, "No space left on device")
    for step in (1, 2):
        log.write("train", step, loss=0.5)
    assert capsys.readouterr().err.count("warning: tensorboard gets no more numbers: [Errno 28] No space left") == 1
    assert [step for _, _, step in boards[1].given] == [1, 2]
    assert len((tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 2


RUN = """
import socket
import sys

def refuse(self, address, *rest):
    raise OSError(f"{address} was to be connected to")

socket.socket.connect = refuse
from pellucid.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command, in a process that may connect to nothing."""


@pytest.mark.foreign
def test_each_of_them_has_the_numbers_of_a_run_that_was_gone_on_with(tmp_path: Path) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(80))
    words = small_arguments(src, tgt, tmp_path / "run", "train.steps=8", "train.save_every=4")
    several = ["--set", 'train.log_to=["tensorboard", "trackio", "mlflow"]']
    run = tmp_path / "run"
    for step in (8, 4):
        done = run_python("-c", RUN, *words, *several)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert "warning" not in done.stderr
        if step == 8:  # as if it had been killed behind step 6
            (run / "result.json").unlink()
            (run / "checkpoints/step-00000008/state.json").unlink()
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    losses = [(line["step"], line["loss"]) for line in lines if line["event"] == "train"]
    assert [step for step, _ in losses] == list(range(1, 9))

    from mlflow import MlflowClient
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(run / "tensorboard"))
    board.Reload()
    assert [(each.step, pytest.approx(each.value)) for each in board.Scalars("train/loss")] == losses
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, of a library that it uses
        client = MlflowClient(f"sqlite:///{run / 'mlflow.db'}")
        (found,) = client.search_runs([client.get_experiment_by_name("pellucid").experiment_id])
        history = client.get_metric_history(found.info.run_id, "train/loss")
    assert (found.info.status, found.info.run_name) == ("FINISHED", "run")
    assert [(each.step, each.value) for each in history] == losses
    (database,) = (run / "trackio").glob("*.db")
    with sqlite3.connect(database) as opened:
        rows = opened.execute("select step, metrics from metrics order by step").fetchall()
    tables = [(step, json.loads(text)) for step, text in rows]
    assert [(step, table["train/loss"]) for step, table in tables if "train/loss" in table] == losses
