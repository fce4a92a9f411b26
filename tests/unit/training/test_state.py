"""Checkpoints: bit-identical, whole or not there, and no more of them than are needed."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from pellucid.config import TrainConfig
from pellucid.errors import CheckpointError
from pellucid.training.optimizer import make_optimizer
from pellucid.training.state import Checkpoints, Meter, RunState

STATE = RunState(
    step=20, epoch=3, position=7, tokens=12345, seconds=1.25, best_step=10, best_loss=0.1, best_bleu=None,
    meter=Meter(loss_sum=1 / 3, tokens=99, seconds=0.1),
)  # fmt: skip
FILES = ["model.safetensors", "optimizer.safetensors", "state.json"]


def tied_model() -> nn.Module:
    """Two matrices of which one stands twice, and a frozen bias."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model[1].bias.requires_grad_(False)
    return model


def trained(steps: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(steps)
    model = tied_model()
    optimizer = make_optimizer(model, TrainConfig())
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().sum().backward()
        for group in optimizer.param_groups:
            group["lr"] = 0.01
        optimizer.step()
    return model, optimizer


class Run:
    """Checkpoints in a folder, saved and restored by step."""

    def __init__(self, folder: Path, save_every: int = 10, average: int = 1) -> None:
        self.checkpoints = Checkpoints(folder, save_every, average)
        self.folder = folder

    def save(self, *steps: int) -> None:
        for step in steps:
            self.checkpoints.save(RunState(step=step), *trained(step % 7))

    def restore(self) -> tuple[RunState, list[str]]:
        said: list[str] = []
        model = tied_model()
        return self.checkpoints.restore(model, make_optimizer(model, TrainConfig()), said.append), said

    @property
    def names(self) -> list[int]:
        return sorted(int(path.name[5:]) for path in self.folder.iterdir())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "checkpoints")


def test_saved_and_restored_is_bit_identical(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 10, 1)
    model, optimizer = trained(3)
    checkpoints.save(STATE, model, optimizer)
    other, other_optimizer = trained(1)
    said: list[str] = []
    assert checkpoints.restore(other, other_optimizer, said.append) == STATE
    assert said == []
    for (name, ours), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs), name
        assert (ours in optimizer.state) == (theirs in other_optimizer.state) == ours.requires_grad
        for moment, value in optimizer.state.get(ours, {}).items():
            restored = other_optimizer.state[theirs][moment]
            assert torch.equal(value, restored), f"{moment} of {name}"
            assert value.dtype == restored.dtype
    assert other[0].weight is other[1].weight  # type: ignore[index]


def test_training_goes_on_bit_identically(tmp_path: Path) -> None:
    model, optimizer = trained(3)
    Checkpoints(tmp_path, 10, 1).save(STATE, model, optimizer)
    other = tied_model()
    other_optimizer = make_optimizer(other, TrainConfig())
    Checkpoints(tmp_path, 10, 1).restore(other, other_optimizer, print)
    for network, adam in ((model, optimizer), (other, other_optimizer)):
        torch.manual_seed(1)
        for _ in range(3):
            adam.zero_grad()
            network(torch.randn(4, 3)).square().sum().backward()
            for group in adam.param_groups:
                group["lr"] = 0.01
            adam.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_without_checkpoints_the_state_is_new(run: Run) -> None:
    assert run.restore() == (RunState(), [])


def test_the_newest_is_restored(run: Run) -> None:
    run.save(10, 20)
    assert run.restore()[0].step == 20


def test_a_half_written_one_is_ignored_and_later_removed(run: Run) -> None:
    run.save(10)
    half = run.folder / "step-00000013.partial"
    shutil.copytree(run.folder / "step-00000010", half)
    assert run.restore()[0].step == 10
    assert run.checkpoints.to_average() == [run.folder / "step-00000010"]
    run.save(20)
    assert run.names == [10, 20]


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "cut off":
        path.write_bytes(data[: len(data) // 2])
    else:
        path.write_bytes(data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])


@pytest.mark.parametrize("how", ["missing", "cut off", "one bit"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_newest_one_is_passed_over_aloud(run: Run, name: str, how: str) -> None:
    run.save(10, 20)
    damage(run.folder / "step-00000020" / name, how)
    state, said = run.restore()
    assert state.step == 10
    assert said == [f"the checkpoint `{run.folder / 'step-00000020'}` is not whole: passed over"]


@pytest.mark.parametrize("text", ["[]", "{}", '{"step": 20}', '{"sha256": {}, "step": 20, "new": 1}', "null"])
def test_a_state_that_is_none_is_passed_over(run: Run, text: str) -> None:
    run.save(10, 20)
    (run.folder / "step-00000020" / "state.json").write_text(text, encoding="utf-8")
    assert run.restore()[0].step == 10


def test_a_renamed_one_is_passed_over(run: Run) -> None:
    run.save(10)
    shutil.copytree(run.folder / "step-00000010", run.folder / "step-00000090")
    state, said = run.restore()
    assert state.step == 10
    assert said == [f"the checkpoint `{run.folder / 'step-00000090'}` is not whole: passed over"]


def test_all_damaged_is_an_error_that_keeps_them(run: Run) -> None:
    run.save(10, 20)
    for path in run.folder.iterdir():
        damage(path / "model.safetensors", "one bit")
    with pytest.raises(CheckpointError, match=r"none of the 2 checkpoints in `.*checkpoints` is whole") as error:
        run.restore()
    assert error.value.hint == "start over with --fresh"
    assert run.names == [10, 20]


def test_after_a_fall_back_the_new_ones_are_kept(run: Run) -> None:
    run.save(10, 20, 30)
    for step in (20, 30):
        damage(run.folder / f"step-{step:08d}" / "model.safetensors", "one bit")
    shutil.copytree(run.folder / "step-00000030", run.folder / "step-00000040")
    run.save(11)
    assert run.restore()[0].step == 11
    assert run.names == [11]


@pytest.mark.parametrize(
    ("average", "kept"), [(1, [40, 50]), (2, [40, 50]), (4, [20, 30, 40, 50]), (9, [10, 20, 30, 40, 50])]
)
def test_as_many_are_kept_as_the_average_needs_and_two(tmp_path: Path, average: int, kept: list[int]) -> None:
    run = Run(tmp_path / "checkpoints", average=average)
    run.save(10, 20, 30, 40, 50)
    assert run.names == kept
    assert [int(path.name[5:]) for path in run.checkpoints.to_average()] == kept[-average:]
    with_moments = [path.parent.name for path in sorted(run.folder.glob("*/optimizer.safetensors"))]
    assert with_moments == ["step-00000040", "step-00000050"], "moments are for resuming alone"


def test_an_interruption_never_enters_the_average(tmp_path: Path) -> None:
    run = Run(tmp_path / "checkpoints", average=3)
    run.save(10, 13, 17, 20, 30, 31)
    assert [int(path.name[5:]) for path in run.checkpoints.to_average()] == [10, 20, 30]
    assert run.names == [10, 20, 30, 31]
    run.save(40)
    assert run.names == [20, 30, 31, 40]
    assert [int(path.name[5:]) for path in run.checkpoints.to_average()] == [20, 30, 40]


def test_an_interruption_when_a_checkpoint_is_due_is_that_checkpoint(run: Run) -> None:
    run.save(10, 20, 20)
    assert run.names == [10, 20]
    assert run.restore()[0].step == 20


def test_steps_beyond_eight_digits_are_in_order(run: Run) -> None:
    run.save(99_999_990, 100_000_000)
    assert run.restore()[0].step == 100_000_000


def test_the_table_of_a_state_is_json(tmp_path: Path) -> None:
    Checkpoints(tmp_path, 10, 1).save(STATE, *trained(1))
    table = json.loads((tmp_path / "step-00000020" / "state.json").read_text(encoding="utf-8"))
    assert sorted(table.pop("sha256")) == ["model.safetensors", "optimizer.safetensors"]
    assert RunState.from_table(table) == STATE


def test_the_meter_reads_loss_and_speed() -> None:
    meter = Meter()
    assert (meter.loss, meter.speed) == (0, 0)
    meter.add(6.0, 3, 0.5)
    meter.add(2.0, 1, 0.5)
    assert (meter.loss, meter.speed) == (2.0, 4.0)
