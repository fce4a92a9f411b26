"""The moving average: its formula, its place in validation, what is kept of it, and that it resumes exactly."""

import signal
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import nn

from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.optimizer import MovingAverage
from pellucid.training.state import average_into
from pellucid.weights.tensors import load_tensors
from tests.unit.training.test_loop import stop_at
from tests.unit.training.toy_run import ToyRun

EMA = {"ema_decay": 0.6}


@pytest.mark.parametrize("decay", [0.3, 0.99])
def test_the_average_by_hand(decay: float) -> None:
    model = nn.Linear(2, 1, bias=False)
    model.weight.data = torch.tensor([[4.0, 0.0]])
    average = MovingAverage(model, decay)
    expected = torch.tensor([[4.0, 0.0]])
    for step in range(1, 6):
        model.weight.data = torch.tensor([[0.0, float(step)]])
        average.update(step)
        now = min(decay, [2 / 11, 3 / 12, 4 / 13, 5 / 14, 6 / 15][step - 1])
        expected = now * expected + (1 - now) * model.weight.data
    torch.testing.assert_close(average.tensors["weight"], expected)


def test_it_takes_the_weights_place_and_gives_it_back() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    average = MovingAverage(model, 0.9)
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    for tensor in average.tensors.values():
        tensor.add_(1)
    with suppress(KeyError), average.swap_in():
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, weights[name] + 1)
        assert model[0].weight is model[1].weight
        raise KeyError("also after a failure")
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, weights[name])
        assert torch.equal(average.tensors[name], weights[name] + 1)


@pytest.mark.slow
def test_the_average_is_validated_and_kept(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, settings=EMA | {"average": 1})
    run.trainer.train()
    assert run.trainer.step.moving_average is not None
    average = run.trainer.step.moving_average.tensors
    best = run.metrics[-1]
    assert best["event"] == "validation"
    assert best["loss"] == pytest.approx(float(sum(p.double().mean() for p in average.values())), rel=1e-6)
    assert best["best"], "else what was kept is another step's"
    for name, weights in run.weights.items():
        assert torch.equal(run.published[-1][name], average[name])
        assert not torch.equal(weights, average[name])


@pytest.mark.slow
def test_training_itself_does_not_see_it(tmp_path: Path) -> None:
    with_average, without = (ToyRun(tmp_path / str(i), settings=s) for i, s in enumerate((EMA, {})))
    with_average.trainer.train()
    without.trainer.train()
    # The last thing a run does is to put the mean of its checkpoints into the model.
    ours, theirs = (
        load_tensors(run.folder / "checkpoints" / "step-00000012" / "model.safetensors")
        for run in (with_average, without)
    )
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())


@pytest.mark.slow
def test_the_mean_of_checkpoints_is_that_of_their_moving_averages(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, settings=EMA)
    run.trainer.train()
    paths = run.trainer.saving.checkpoints.to_average("last")
    first, second = (load_tensors(path / "ema.safetensors") for path in paths)
    average_into(run.model, paths)
    for name, found in run.weights.items():
        torch.testing.assert_close(found, (first[name] + second[name]) / 2)


@pytest.mark.slow
def test_checkpoints_that_none_resumes_from_hold_the_average_alone(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, settings=EMA | {"average": 4})
    run.trainer.train()
    files = [sorted(path.name for path in (tmp_path / "checkpoints" / name).iterdir()) for name in run.checkpoints]
    whole = ["ema.safetensors", "model.safetensors", "optimizer.safetensors", "state.json"]
    assert files == [*[["ema.safetensors", "state.json"]] * (len(files) - 2), whole, whole]
    assert len(files) > 3


@pytest.mark.slow
def test_a_resumed_run_is_the_unbroken_one(tmp_path: Path) -> None:
    unbroken = ToyRun(tmp_path / "unbroken", settings=EMA)
    unbroken.trainer.train()
    for step in (2, 6, 8):
        stopped = ToyRun(tmp_path / "broken", settings=EMA, at_step=stop_at({step: signal.SIGTERM}))
        with pytest.raises(TrainingInterrupted):
            stopped.trainer.train()
    last = ToyRun(tmp_path / "broken", settings=EMA)
    last.trainer.train()
    assert last.metrics == unbroken.metrics
    assert all(torch.equal(last.published[-1][name], weights) for name, weights in unbroken.published[-1].items())
