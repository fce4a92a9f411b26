"""A full disk stops saving, not training; what waits is written before the next checkpoint, and nothing is lost."""

import errno
import json
import os
from pathlib import Path

import pytest
import torch
from torch import nn

from pellucid.config import TrainConfig
from pellucid.training.log import RunLog
from pellucid.training.loss import CrossEntropy
from pellucid.training.optimizer import Tensors, make_optimizer
from pellucid.training.saving import CheckpointWriter
from pellucid.training.state import Checkpoints, RunState, TrainableState
from pellucid.weights.tensors import load_tensors, parameters, save_tensors


class Disk:
    """A run whose disk may be full: what is written then fails."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, average: int = 3) -> None:
        self.folder = folder
        self.full = False
        self.number = errno.ENOSPC
        self.said: list[str] = []
        self.log = RunLog(folder, 100, quiet=True)
        self.checkpoints = Checkpoints(folder / "checkpoints", save_every=10, average=average, last_step=100)
        self.saving = CheckpointWriter(self.checkpoints, self.publish, self.log)
        self.model = nn.Linear(2, 2)
        self.trained = TrainableState(self.model, CrossEntropy(), make_optimizer(self.model, TrainConfig()))
        write = Checkpoints.write
        monkeypatch.setattr(self.log, "log_line", self.said.append)
        monkeypatch.setattr(Checkpoints, "write", lambda *args: (self.check(), write(*args)))

    def check(self) -> None:
        if self.full:
            raise OSError(self.number, os.strerror(self.number))

    def publish(self, weights: Tensors) -> None:
        self.check()
        save_tensors(self.folder / "model.safetensors", weights)

    def at(self, step: int) -> RunState:
        """The state of a step, whose weights are that number."""
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.fill_(step)
        return RunState(step=step)

    def save(self, *steps: int) -> list[bool]:
        return [self.saving.save(self.at(step), self.trained.files) for step in steps]

    def publish_best(self, step: int) -> None:
        self.at(step)
        self.saving.publish(step, parameters(self.model))

    @property
    def best(self) -> float:
        return float(load_tensors(self.folder / "model.safetensors")["bias"][0])

    @property
    def averaged(self) -> dict[int, float]:
        """The steps to be averaged, with the weights that are there for them."""
        paths = self.checkpoints.to_average()
        return {int(p.name[5:]): float(load_tensors(p / "model.safetensors")["bias"][0]) for p in paths}

    @property
    def names(self) -> list[int]:
        return sorted(int(path.name[5:]) for path in self.checkpoints.folder.iterdir())


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS])
def test_a_full_disk_stops_saving_aloud_and_only_once_at_length(disk: Disk, number: int) -> None:
    assert disk.save(10) == [True]
    disk.full, disk.number = True, number
    disk.publish_best(20)
    assert disk.save(20, 30) == [False, False]
    first, second, third = disk.said
    reason = os.strerror(number)
    assert first.startswith(f"warning: step 20: the best weights so far could not be written: {reason}, ")
    assert " MB free\n" in first
    assert "\n  Training continues, and unsaved data is kept in memory; the last good checkpoint is step 10." in first
    assert f"\n  Free space on the disk of `{disk.folder}`: each later checkpoint tries again." in first
    for text, step in ((second, 20), (third, 30)):
        assert text.startswith(f"warning: step {step}: the checkpoint could not be written: {reason}, ")
        assert text.endswith("; the last good checkpoint is step 10")
        assert "\n" not in text
    disk.full = False
    assert disk.save(40) == [True]
    assert disk.said[3:] == ["step 40: the disk has free space again, and everything is saved"]
    assert disk.save(50) == [True]
    assert len(disk.said) == 4


def test_without_a_checkpoint_that_is_said(disk: Disk) -> None:
    disk.full = True
    disk.save(10, 20)
    assert "; there is no checkpoint yet.\n" in disk.said[0]
    assert disk.said[1].endswith("; there is no checkpoint yet")


def test_what_is_to_be_averaged_is_written_later_with_the_weights_of_its_time(disk: Disk) -> None:
    disk.save(10)
    disk.full = True
    disk.save(20, 30, 33)
    assert disk.names == [10]
    disk.full = False
    disk.save(40)
    assert disk.averaged == {20: 20.0, 30: 30.0, 40: 40.0}
    assert disk.names == [10, 20, 30, 40], "10 is the other one that can be resumed from, 33 was an interruption's"
    disk.save(50)
    assert disk.averaged == {30: 30.0, 40: 40.0, 50: 50.0}
    assert disk.names == [30, 40, 50]


def test_only_what_the_average_may_need_waits(disk: Disk) -> None:
    disk.full = True
    disk.save(*range(10, 90, 10))
    assert sorted(disk.saving._late) == [60, 70, 80]


def test_without_an_average_no_checkpoint_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path, monkeypatch, average=1)
    disk.full = True
    disk.save(10, 20)
    assert disk.saving._late == {}


def test_the_best_weights_wait_and_newer_ones_take_their_place(disk: Disk) -> None:
    disk.publish_best(5)
    disk.full = True
    disk.publish_best(10)
    disk.publish_best(15)
    disk.at(17)
    assert disk.best == 5.0
    disk.full = False
    disk.save(20)
    assert disk.best == 15.0
    disk.full = True
    disk.publish_best(25)
    disk.full = False
    disk.publish_best(30)
    disk.save(40)
    assert disk.best == 30.0


def test_a_checkpoint_vouches_for_all_before_it(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not written where the metrics, or the best weights, of its time are not."""
    disk.full = True
    disk.publish_best(10)
    disk.full = False
    order: list[str] = []
    flush, publish, write = RunLog.flush, disk.saving._publish, Checkpoints.write
    monkeypatch.setattr(RunLog, "flush", lambda log: (order.append("metrics"), flush(log)))
    monkeypatch.setattr(disk.saving, "_publish", lambda weights: (order.append("best"), publish(weights)))
    monkeypatch.setattr(Checkpoints, "write", lambda *args: (order.append("checkpoint"), write(*args)))
    disk.save(10)
    assert order == ["metrics", "best", "checkpoint"]

    def fail(log: RunLog) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RunLog, "flush", fail)
    assert disk.save(20) == [False]
    assert disk.names == [10]


def test_at_the_end_what_waits_must_be_written(disk: Disk) -> None:
    disk.save(90)
    disk.full = True
    disk.publish_best(100)
    disk.save(100)
    with pytest.raises(OSError, match="No space left"):
        disk.saving.write_what_waits()
    disk.full = False
    disk.saving.write_what_waits()
    assert (disk.best, disk.averaged) == (100.0, {90: 90.0, 100: 100.0})
    assert disk.checkpoints.last_step_saved == 90


@pytest.mark.parametrize("act", ["publish_best", "save"])
def test_what_no_room_can_mend_is_an_error(disk: Disk, act: str) -> None:
    disk.full, disk.number = True, errno.EACCES
    with pytest.raises(PermissionError):
        getattr(disk, act)(10)
    assert disk.said == []


def test_the_time_of_saving_counts(disk: Disk) -> None:
    for full in (False, True):
        disk.full = full
        state = disk.at(10)
        disk.saving.save(state, disk.trained.files)
        assert state.seconds > 0
    table = json.loads((disk.checkpoints.folder / "step-00000010" / "state.json").read_text(encoding="utf-8"))
    assert table["seconds"] == 0.0
