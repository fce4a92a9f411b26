"""What a run's model is at the end: the best of start, best validation and two means, on all that is held out."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.training.optimizer import Tensors
from pellucid.training.state import read_checkpoint_weights
from pellucid.training.validation import Validation, select_best
from pellucid.weights.tensors import load_tensors, save_tensors
from tests.unit.training.toy_run import ToyRun

ALONE: dict[str, Any] = {"average": 1}


@pytest.mark.parametrize(
    ("found", "best"),
    [
        # Less than one BLEU decides nothing: the loss does.
        ([Validation(2.0, 30.9), Validation(1.9, 30.0), Validation(2.1, 30.5)], 1),
        ([Validation(5.108, 0.24), Validation(4.867, 0.11)], 1),
        # One BLEU decides, whatever the loss.
        ([Validation(1.9, 29.9), Validation(2.0, 30.9)], 1),
        ([Validation(0.0005, 100.0), Validation(0.042, 98.9)], 0),
        # Without BLEU the loss, of equal ones the first.
        ([Validation(2.0), Validation(1.0), Validation(1.0)], 1),
        ([Validation(2.0, accuracy=0.81), Validation(1.0, accuracy=0.805)], 1),
        ([Validation(2.0, accuracy=0.82), Validation(1.0, accuracy=0.80)], 0),
        # What is not a number never wins.
        ([Validation(float("nan"), 30.0), Validation(3.0, 30.0)], 1),
    ],
)
def test_which_weights_are_kept(found: list[Validation], best: int) -> None:
    assert select_best(found) == best


def test_the_loss_alone_decides_where_that_is_asked_for() -> None:
    assert select_best([Validation(2.0, 30.0), Validation(1.0, 10.0)], "loss") == 1


def test_bleu_below_one_does_not_choose_the_best_validation() -> None:
    assert Validation(4.867, 0.11).score() > Validation(5.108, 0.24).score()
    assert Validation(5.0, 1.2).score() > Validation(4.0, 0.9).score()


def test_the_best_validation_is_kept_where_the_means_are_worse(tmp_path: Path) -> None:
    at: dict[int, Tensors] = {}
    run = ToyRun(tmp_path, scores=[10.0, 30.0, 20.0, 30.0, 22.0, 25.0])
    run.at_step = lambda step: at.setdefault(step, run.weights) and None
    state = run.trainer.train()
    assert all(torch.equal(run.published[-1][name], weights) for name, weights in at[8].items())
    assert all(torch.equal(weights, at[8][name]) for name, weights in run.weights.items()), "the model is it, too"
    assert (state.best_step, state.best_bleu) == (8, 30.0)
    assert run.trainer.selection.chosen == "the best validation (step 8)"
    rows = [line for line in run.metrics if line["event"] == "candidate"]
    assert [(row["candidate"], row["checkpoints"], row["bleu"], row["kept"]) for row in rows] == [
        ("best", [8], 30.0, True), ("mean of last", [9, 12], 22.0, False), ("mean of best", [8, 12], 25.0, False),
    ]  # fmt: skip
    folder = tmp_path / "checkpoints"
    assert (
        f"selected model: the best validation (step 8); the checkpoints of the other candidates remain in `{folder}`"
        in run.said
    )
    for step in (8, 9, 12):
        assert read_checkpoint_weights(folder / f"step-{step:08d}")


def test_the_choice_is_on_all_that_is_held_out(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, scores=[10.0, 30.0, 20.0])
    found = iter([29.0, 45.0, 44.0])
    run.trainer.selection.validate_all = lambda: Validation(1.0, next(found))
    assert run.trainer.train().best_bleu == 45.0
    assert run.trainer.selection.chosen == "the mean of the last 2 checkpoints"


def test_two_means_of_the_same_are_one(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, settings={"validate_every": 6, "save_every": 6})
    run.trainer.train()
    rows = [line for line in run.metrics if line["event"] == "candidate"]
    assert [row["candidate"] for row in rows] == ["best", "mean of last"]


def test_the_start_is_a_candidate(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, scores=[90.0, 91.0, 80.0, 70.0, 95.0, 90.0, 60.0, 85.0], settings={"average": 2})
    run.trainer.has_start = True
    start = run.weights
    run.trainer.train()
    rows = [line for line in run.metrics if line["event"] == "candidate"]
    assert [row["candidate"] for row in rows] == ["start", "best", "mean of last", "mean of best"]
    assert run.trainer.selection.chosen == "the initial weights of the run"
    assert all(torch.equal(run.published[-1][name], weights) for name, weights in start.items())


class Stopped(BaseException):
    """As if the process had been killed."""


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(1, marks=pytest.mark.slow),
        2,
        pytest.param(3, marks=pytest.mark.slow),
        pytest.param(4, marks=pytest.mark.slow),
    ],
)
def test_a_run_killed_while_it_chooses_ends_the_same(tmp_path: Path, call: int) -> None:
    """Killed within each validation of a candidate, and when the winner is written."""
    unbroken = ToyRun(tmp_path / "unbroken")
    unbroken.trainer.train()
    broken, calls = ToyRun(tmp_path / "broken"), []

    def counted() -> Validation:
        calls.append(1)
        if len(calls) == call:
            raise Stopped
        return broken._validate()

    def kept(weights: Tensors) -> None:
        if len(calls) == 3 and call == 4:
            raise Stopped

    broken.trainer.selection.validate_all, broken.trainer.selection.publish = counted, kept
    with pytest.raises(Stopped):
        broken.trainer.train()
    last = ToyRun(tmp_path / "broken")
    last.trainer.train()
    assert last.metrics == unbroken.metrics
    assert last.trainer.selection.chosen == unbroken.trainer.selection.chosen
    assert all(torch.equal(last.published[-1][name], weights) for name, weights in unbroken.published[-1].items())


def on_disk(run: ToyRun) -> Path:
    """Has the run's model be a file, as it is in a run folder."""
    path = run.folder / "model.safetensors"

    def keep(weights: Tensors) -> None:
        save_tensors(path, weights)

    run.trainer.selection.publish = keep
    run.trainer.saving._publish = keep
    run.trainer.selection.published = lambda: sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    return path


@pytest.mark.parametrize("harm", ["removed", "damaged"])
def test_a_model_that_is_lost_in_mid_run_is_put_back(tmp_path: Path, harm: str) -> None:
    run = ToyRun(tmp_path, scores=[30.0, 20.0, 10.0], settings=ALONE)
    path = on_disk(run)

    def lose(step: int) -> None:
        if step == 10:
            path.unlink() if harm == "removed" else path.write_bytes(path.read_bytes()[:-1] + b"?")

    run.at_step = lose
    run.trainer.train()
    saved = tmp_path / "checkpoints" / "step-00000004"
    assert path.read_bytes() == (saved / "model.safetensors").read_bytes()
    was = "is missing" if harm == "removed" else "is not the best one"
    assert f"the run's model {was}; restoring it from `{saved}`" in run.said


def test_a_model_that_is_lost_between_two_commands_is_put_back(tmp_path: Path) -> None:
    def stop(step: int) -> None:
        if step == 10:
            raise Stopped

    first = ToyRun(tmp_path, scores=[30.0, 20.0], settings=ALONE, at_step=stop)
    path = on_disk(first)
    with pytest.raises(Stopped):
        first.trainer.train()
    path.unlink()
    again = ToyRun(tmp_path, scores=[10.0], settings=ALONE, at_step=lambda step: path.is_file() or pytest.fail("late"))
    on_disk(again)
    again.trainer.train()
    assert load_tensors(path).keys() == again.weights.keys()


def test_a_model_that_no_checkpoint_holds_is_said(tmp_path: Path) -> None:
    """As in a run that an earlier version began, which did not keep the best one's checkpoint."""
    run = ToyRun(tmp_path, scores=[30.0, 20.0, 10.0], settings=ALONE)
    path = on_disk(run)

    def lose(step: int) -> None:
        if step == 11 or step == 12:
            path.unlink(missing_ok=True)
            (tmp_path / "checkpoints" / "step-00000004" / "state.json").unlink(missing_ok=True)

    run.at_step = lose
    run.trainer.train()
    assert "warning: selected model: the last step (12), since the best weights are lost" in run.said
    assert all(torch.equal(load_tensors(path)[name], weights) for name, weights in run.weights.items())
