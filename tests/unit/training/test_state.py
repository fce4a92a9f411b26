"""Checkpoints: bit-identical, whole or not there, and no more of them than are needed."""

import errno
import json
import re
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from torch import nn

from pellucid.config import TrainConfig
from pellucid.errors import CheckpointError
from pellucid.training.loss import CrossEntropy
from pellucid.training.optimizer import make_optimizer
from pellucid.training.state import WEIGHTS, Checkpoints, Meter, RunState, TrainableState, read_checkpoint_weights

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


def trained(steps: int) -> TrainableState:
    torch.manual_seed(steps)
    model = tied_model()
    optimizer = make_optimizer(model, TrainConfig())
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().sum().backward()
        for group in optimizer.param_groups:
            group["lr"] = 0.01
        optimizer.step()
    return TrainableState(model, CrossEntropy(), optimizer)


class Run:
    """Checkpoints in a folder, saved and restored by step."""

    def __init__(self, folder: Path, save_every: int = 10, average: int = 1) -> None:
        self.checkpoints = Checkpoints(folder, save_every, average)
        self.folder = folder

    def save(self, *steps: int) -> None:
        for step in steps:
            self.checkpoints.save(RunState(step=step), trained(step % 7).files)

    def restore(self) -> tuple[RunState, list[str]]:
        said: list[str] = []
        return self.checkpoints.restore(trained(0), said.append), said

    @property
    def names(self) -> list[int]:
        return sorted(int(path.name[5:]) for path in self.folder.iterdir())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "checkpoints")


def test_saved_and_restored_is_bit_identical(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 10, 1)
    before, after = trained(3), trained(1)
    checkpoints.save(STATE, before.files)
    said: list[str] = []
    assert checkpoints.restore(after, said.append) == STATE
    assert said == []
    for (name, ours), theirs in zip(before.model.named_parameters(), after.model.parameters(), strict=True):
        assert torch.equal(ours, theirs), name
        assert (ours in before.optimizer.state) == (theirs in after.optimizer.state) == ours.requires_grad
        for moment, value in before.optimizer.state.get(ours, {}).items():
            restored = after.optimizer.state[theirs][moment]
            assert torch.equal(value, restored), f"{moment} of {name}"
            assert value.dtype == restored.dtype
    assert after.model[0].weight is after.model[1].weight  # type: ignore[index]


def test_training_goes_on_bit_identically(tmp_path: Path) -> None:
    before, after = trained(3), trained(0)
    Checkpoints(tmp_path, 10, 1).save(STATE, before.files)
    Checkpoints(tmp_path, 10, 1).restore(after, print)
    for network, adam in ((before.model, before.optimizer), (after.model, after.optimizer)):
        torch.manual_seed(1)
        for _ in range(3):
            adam.zero_grad()
            network(torch.randn(4, 3)).square().sum().backward()
            for group in adam.param_groups:
                group["lr"] = 0.01
            adam.step()
    assert all(torch.equal(a, b) for a, b in zip(before.model.parameters(), after.model.parameters(), strict=True))


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
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut off":
        path.write_bytes(data[: len(data) // 2])
    elif how == "longer":
        path.write_bytes(data + b"\0")
    else:
        path.write_bytes(data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])


@pytest.mark.parametrize(
    ("name", "how", "what"),
    [
        *((name, "missing", f"it has no {name}") for name in FILES),
        *((name, "one bit", f"{name} has changed since it was written: its SHA-256 differs") for name in FILES),
        ("model.safetensors", "cut off", r"model.safetensors has \d+ bytes instead of \d+"),
        ("optimizer.safetensors", "empty", r"optimizer.safetensors has 0 bytes instead of [\d,]+"),
        ("optimizer.safetensors", "longer", r"optimizer.safetensors has [\d,]+ bytes instead of [\d,]+"),
        ("state.json", "empty", r"state.json is damaged \(0 bytes\)"),
        ("state.json", "cut off", r"state.json is damaged \([\d,]+ bytes\)"),
    ],
)
def test_a_damaged_newest_one_is_passed_over_aloud(run: Run, name: str, how: str, what: str) -> None:
    run.save(10, 20)
    damage(run.folder / "step-00000020" / name, how)
    state, said = run.restore()
    assert state.step == 10
    (line,) = said
    assert re.fullmatch(f"the checkpoint `{run.folder / 'step-00000020'}` is skipped: {what}", line)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_no_bit_of_a_checkpoint_can_change_unseen(run: Run, name: str) -> None:
    """A bit here and there, mostly of state.json, in which nearly each is read."""
    run.save(10, 20)
    path = run.folder / "step-00000020" / name
    whole = path.read_bytes()
    places = range(0, len(whole), 5 if name == "state.json" else 101)
    for place in places:
        bit = place % 8
        flipped = whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :]
        if name == "state.json" and not is_other_json(whole, flipped):
            continue
        path.write_bytes(flipped)
        assert run.restore()[0].step == 10, (place, bit)
    path.write_bytes(whole)
    assert run.restore()[0].step == 20


def is_other_json(before: bytes, after: bytes) -> bool:
    """Whether two texts are not the same JSON: spaces may become other blanks."""
    try:
        return bool(json.loads(before) != json.loads(after))
    except ValueError:
        return True


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
    assert said == [f"the checkpoint `{run.folder / 'step-00000090'}` is skipped: it holds step 10"]


def test_all_damaged_is_an_error_that_keeps_them(run: Run) -> None:
    run.save(10, 20)
    for path in run.folder.iterdir():
        damage(path / "model.safetensors", "one bit")
    with pytest.raises(CheckpointError, match=r"none of the 2 checkpoints in `.*checkpoints` is complete") as error:
        run.restore()
    assert error.value.hint.endswith("otherwise start over with `fresh=True`")
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


def test_state_json_vouches_for_itself_and_the_files_beside_it(tmp_path: Path) -> None:
    Checkpoints(tmp_path, 10, 1).save(STATE, trained(1).files)
    folder = tmp_path / "step-00000020"
    table = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    digest, files = table.pop("sha256"), table["files"]
    assert digest == sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
    assert files == {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256((folder / name).read_bytes()).hexdigest()}
        for name in ("model.safetensors", "optimizer.safetensors")
    }
    del table["files"]
    assert RunState.from_table(table) == STATE


def test_a_moving_average_is_saved_and_restored(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 10, 1)
    begun = trained(3)
    ema = {name: torch.randn_like(p) for name, p in begun.model.named_parameters()}
    checkpoints.save(STATE, replace(begun, ema=ema).files)
    found = {name: torch.zeros_like(p) for name, p in begun.model.named_parameters()}
    checkpoints.restore(replace(begun, ema=found), print)
    assert all(torch.equal(found[name], tensor) for name, tensor in ema.items())
    assert torch.equal(read_checkpoint_weights(tmp_path / "step-00000020")["0.weight"], ema["0.weight"])
    damage(tmp_path / "step-00000020" / "ema.safetensors", "one bit")
    with pytest.raises(CheckpointError, match="none of the 1 checkpoints"):
        checkpoints.restore(replace(begun, ema=found), print)


@pytest.mark.parametrize(("how", "what"), [("one bit", "its SHA-256 differs"), ("missing", "it has no model")])
def test_damaged_weights_never_enter_an_average(run: Run, how: str, what: str) -> None:
    run.save(10)
    folder = run.folder / "step-00000010"
    damage(folder / "model.safetensors", how)
    expected = f"^the checkpoint `{re.escape(str(folder))}` is required for the averaged model, but .*{what}"
    with pytest.raises(CheckpointError, match=expected) as error:
        read_checkpoint_weights(folder)
    assert error.value.hint.startswith("remove this folder and run the same command again to use the others")


def test_nothing_of_a_checkpoint_that_fails_stays_and_the_others_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.save(10, 20)
    with monkeypatch.context() as patch:
        patch.setattr("pellucid.training.state._write_state", no_room)
        with pytest.raises(OSError, match="No space left"):
            run.save(30)
    assert run.names == [10, 20]
    assert run.restore()[0].step == 20
    assert run.checkpoints.last_step_saved == 20


def test_those_to_be_looked_at_keep_their_weights_alone(tmp_path: Path) -> None:
    run = Run(tmp_path / "checkpoints")
    run.checkpoints.keep_every = 20
    run.save(10, 20, 30, 40, 50, 60)
    assert run.names == [20, 40, 50, 60]
    assert not (run.folder / "step-00000020" / "optimizer.safetensors").exists()
    assert read_checkpoint_weights(run.folder / "step-00000020")
    assert [int(path.name[5:]) for path in run.checkpoints.to_average()] == [60]


def test_what_cannot_be_removed_does_not_fail_the_checkpoint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.save(10, 20)
    with monkeypatch.context() as patch:
        patch.setattr(
            "pellucid.training.state.shutil.rmtree", lambda path, ignore_errors=False: ignore_errors or no_room()
        )
        run.save(30)
    assert run.names == [10, 20, 30]
    run.save(40)
    assert run.names == [30, 40]


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_weights_alone_are_not_resumed_from(run: Run) -> None:
    """As they stand for a while when the disk was full in between."""
    run.save(10)
    run.checkpoints.write(RunState(step=20), {WEIGHTS: trained(2).files[WEIGHTS]})
    state, said = run.restore()
    assert state.step == run.checkpoints.last_step_saved == 10
    path = run.folder / "step-00000020"
    assert said == [f"the checkpoint `{path}` is skipped: it has no optimizer.safetensors"]
    assert run.checkpoints.to_average() == [path]


def test_the_meter_reads_loss_and_speed() -> None:
    meter = Meter()
    assert (meter.loss, meter.speed) == (0, 0)
    meter.add(6.0, 3, 0.5)
    meter.add(2.0, 1, 0.5)
    assert (meter.loss, meter.speed) == (2.0, 4.0)
