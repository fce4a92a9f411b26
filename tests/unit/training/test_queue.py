"""Steps on a device with a queue: nothing waits for it, and what is promised of a step holds all the same."""

import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.data import batching
from pellucid.errors import PellucidError
from pellucid.model.families import Model
from pellucid.training.events import Hooks, StepEvent
from pellucid.training.loop import Trainer
from pellucid.training.step import TrainStep
from tests.unit.training.test_loop import one_step
from tests.unit.training.test_not_finite import Poisoned
from tests.unit.training.toy_run import ToyRun

Queued = Callable[..., None]
SELDOM = {"log_every": 1000, "validate_every": 1000, "save_every": 1000, "average": 1}


@pytest.fixture
def same_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths stay what they are: dropout then draws what it draws without a queue."""
    monkeypatch.setattr(batching, "MULTIPLE", 1)


def moments(run: ToyRun) -> list[torch.Tensor]:
    state = run.trainer.trained.optimizer.state
    return [value for p in run.model.parameters() for value in state[p].values()]


@pytest.mark.slow
@pytest.mark.usefixtures("same_shapes")
def test_a_whole_run_is_the_same_bit_for_bit(tmp_path: Path, queued: Queued) -> None:
    """With validations, checkpoints and lines of the log amid steps that nobody has looked at."""
    settings = {"grad_clip": 0.5, "ema_decay": 0.9, "log_every": 5}
    plain = ToyRun(tmp_path / "plain", settings=settings)
    plain.trainer.train()
    queued("cpu")
    ahead = ToyRun(tmp_path / "ahead", settings=settings)
    assert ahead.trainer.step.runs_ahead
    ahead.trainer.train()
    assert ahead.has_the_weights_of(plain)
    assert all(map(torch.equal, moments(ahead), moments(plain)))
    assert ahead.metrics == plain.metrics
    assert ahead.trainer.state.tokens == plain.trainer.state.tokens


@pytest.mark.parametrize("settings", [{}, {"r_drop": 1.0, "label_smoothing": 0.1}], ids=str)
def test_longer_shapes_change_rounding_alone(settings: dict[str, Any], tmp_path: Path, queued: Queued) -> None:
    groups = [0, 1, 2, 3, 4, 5, 6], [7, 8]
    loss, norm, expected = one_step(ToyRun(tmp_path / "plain", dropout=0.0, settings=settings), *groups)
    queued("cpu")
    found_loss, found_norm, found = one_step(ToyRun(tmp_path / "ahead", dropout=0.0, settings=settings), *groups)
    assert (found_loss, found_norm) == pytest.approx((loss, norm), rel=1e-5)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("same_shapes")
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("in_gradient", [False, True], ids=["loss", "gradient"])
def test_what_is_not_finite_reaches_no_weight_though_it_is_noticed_later(
    in_gradient: bool, optimizer: str, tmp_path: Path, queued: Queued
) -> None:
    """The pair comes in step 2; whoever waits for each step ends there, and the other after ten steps more."""
    errors, runs, settings = [], [], SELDOM | {"ema_decay": 0.9, "accumulate": 1, "batch_tokens": 16}
    settings |= {"optimizer": optimizer, "weight_decay": 0.1}
    for types in ((), ("cpu",)):
        queued(*types)
        loss = Poisoned({4}, math.nan, in_gradient)
        run = ToyRun(tmp_path / f"{len(types)}", settings=settings, parts={"loss": loss})
        runs.append(run)
        assert run.trainer.step.runs_ahead == bool(types)
        with pytest.raises(PellucidError, match="the loss is not finite at step ") as error:
            run.trainer.train()
        errors.append(str(error.value))
    waited, ahead = runs
    assert errors[1] == errors[0]
    assert "the weights were not changed; it comes from training pair 5" in errors[0]
    assert 1 <= waited.trainer.state.step == ahead.trainer.state.step < 10
    assert waited.trainer.state.tokens == ahead.trainer.state.tokens
    assert ahead.has_the_weights_of(waited)
    assert all(map(torch.equal, moments(ahead), moments(waited)))
    averages = [run.trainer.step.moving_average.tensors for run in runs if run.trainer.step.moving_average is not None]
    assert len(averages) == 2
    assert all(torch.equal(averages[0][name], averages[1][name]) for name in averages[0])
    assert not (tmp_path / "1" / "checkpoints").exists()


class Decaying(torch.optim.SGD):
    """Changes weights beside what PyTorch's kernel does, which alone can be told not to."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step(closure)
        with torch.no_grad():
            for p in self.param_groups[0]["params"]:
                p.mul_(0.5)


def hooked(model: nn.Module) -> torch.optim.Optimizer:
    made = torch.optim.SGD(model.parameters(), lr=1.0, fused=True)
    made.register_step_post_hook(lambda *_: None)
    return made


def test_a_fused_optimizer_of_pytorchs_is_not_waited_for(tmp_path: Path, queued: Queued) -> None:
    queued("cpu")
    run = ToyRun(tmp_path, parts={"optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=1.0, fused=True)})
    assert run.trainer.step.runs_ahead


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda model: torch.optim.SGD(model.parameters(), lr=1.0),
        lambda model: Decaying(model.parameters(), lr=1.0, fused=True),
        hooked,
    ],
    ids=["not fused", "a step of one's own", "hooks"],
)
def test_an_optimizer_that_may_not_leave_out_an_update_is_waited_for(
    optimizer: Callable[[nn.Module], torch.optim.Optimizer], tmp_path: Path, queued: Queued
) -> None:
    queued("cpu")
    parts = {"optimizer": optimizer, "loss": Poisoned({0}, math.inf)}
    run = ToyRun(tmp_path, settings=SELDOM, parts=parts)
    assert not run.trainer.step.runs_ahead
    with pytest.raises(PellucidError, match=r"comes from training pair 1$"):
        run.trainer.train()
    assert all(p.isfinite().all() for p in run.model.parameters())


@pytest.mark.slow
def test_hooks_are_told_of_each_step(tmp_path: Path, queued: Queued) -> None:
    def losses(folder: str) -> list[float]:
        told: list[float] = []

        def note(event: StepEvent) -> None:
            told.append(event.loss)
            assert event.gradient_norm > 0

        ToyRun(tmp_path / folder, dropout=0.0, settings=SELDOM, parts={"hooks": Hooks(step=[note])}).trainer.train()
        return told

    expected = losses("plain")
    queued("cpu")
    assert losses("ahead") == pytest.approx(expected, rel=1e-3)
    assert len(expected) == 12


class LookedError(Exception):
    """Says that the trainer wants to look."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"grad_clip": 1.0, "ema_decay": 0.9}, {"r_drop": 1.0, "label_smoothing": 0.1}, {"optimizer": "muon"}],
    ids=str,
)
def test_nothing_is_waited_for_in_a_step(
    settings: dict[str, Any], tmp_path: Path, queued: Queued, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On tensors that hold no numbers: to wait for one, or to look for places, is an error."""
    monkeypatch.setattr(
        import_module("torch.optim.optimizer"), "_get_fused_kernels_supported_devices", lambda: ["meta"]
    )
    monkeypatch.setattr("pellucid.training.step.UNREAD", 3)
    made: list[nn.Module] = []
    build = Trainer.__init__

    def on_meta(trainer: Trainer, *, model: Model, **options: Any) -> None:
        made.append(model.to("meta"))
        build(trainer, model, **options)

    def look(step: TrainStep) -> None:
        assert len(step._unread) == 3
        raise LookedError

    monkeypatch.setattr(Trainer, "__init__", on_meta)
    queued("meta")
    run = ToyRun(tmp_path, settings=SELDOM | {"steps": 50} | settings)
    monkeypatch.setattr(TrainStep, "read", look)
    with pytest.raises(LookedError):
        run.trainer.train()
    assert run.trainer.state.step == 3
    assert next(made[0].parameters()).is_meta
    queued()
    with pytest.raises((RuntimeError, NotImplementedError)):
        ToyRun(tmp_path / "waiting", settings=SELDOM | settings).trainer.train()
