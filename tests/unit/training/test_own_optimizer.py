"""An optimizer of one's own: its whole state is saved without pickle, and a run with it resumes exactly."""

import json
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.errors import CheckpointError, ConfigError
from pellucid.training.events import Hooks, StepEvent
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.optimizer import check_optimizer, named_parameters, restore_state, split_state
from tests.unit.training.test_loop import batches, stop_at
from tests.unit.training.toy_run import ToyRun

Factory = Callable[[nn.Module], Any]


def matrices(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.dim() == 2]


class Both:
    """Two optimizers as one: Muon for the matrices, Adam for the rest."""

    def __init__(self, model: nn.Module) -> None:
        rest = [p for p in model.parameters() if p.dim() != 2]
        self.parts = [torch.optim.Muon(matrices(model), lr=0.02), torch.optim.Adam(rest, lr=0.002)]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts for group in part.param_groups]

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        return {str(i): part.state_dict() for i, part in enumerate(self.parts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for i, part in enumerate(self.parts):
            part.load_state_dict(state[str(i)])


class Strange(torch.optim.SGD):
    """Keeps all kinds of things: nested, of other types than its parameters, one tensor at two places, text."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float = 0.01) -> None:
        super().__init__(params, lr)
        self.param_groups[0]["shape"] = (1, [2.5, None], {"a": True, 7: "seven"})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step()
        for number, p in enumerate(q for group in self.param_groups for q in group["params"]):
            state = self.state[p]
            if not state:
                shared = torch.zeros(())
                state |= {"count": torch.tensor(0), "seen": 0, "past": [], "tag": f"p{number}", "k.v": shared}
                state["nested"] = {"mask": torch.zeros(3, dtype=torch.bool), "same": shared, 3: (1.5, None)}
            state["count"] += 1
            state["seen"] += 1
            state["past"] = [*state["past"][-1:], p.detach().clone()]
            state["k.v"] += 1
            p.data.mul_(1 - 1e-3 * float(state["nested"]["same"]))


OPTIMIZERS: dict[str, Factory] = {
    "SGD": lambda model: torch.optim.SGD(model.parameters()),
    "momentum": lambda model: torch.optim.SGD(model.parameters(), momentum=0.9, nesterov=True, weight_decay=1e-3),
    "Adam": lambda model: torch.optim.Adam(model.parameters(), amsgrad=True),
    "fused": lambda model: torch.optim.AdamW(model.parameters(), fused=True),
    "Adagrad": lambda model: torch.optim.Adagrad(model.parameters()),
    "RMSprop": lambda model: torch.optim.RMSprop(model.parameters(), momentum=0.5, centered=True),
    "Adadelta": lambda model: torch.optim.Adadelta(model.parameters()),
    "Adamax": lambda model: torch.optim.Adamax(model.parameters()),
    "NAdam": lambda model: torch.optim.NAdam(model.parameters()),
    "RAdam": lambda model: torch.optim.RAdam(model.parameters()),
    "Rprop": lambda model: torch.optim.Rprop(model.parameters()),
    "ASGD": lambda model: torch.optim.ASGD(model.parameters()),
    "Adafactor": lambda model: torch.optim.Adafactor(model.parameters()),
    "Muon": lambda model: torch.optim.Muon(matrices(model)),
    "named": lambda model: torch.optim.SGD(model.named_parameters(), momentum=0.9),  # type: ignore[arg-type]
    "rate in a tensor": lambda model: torch.optim.Adam(model.parameters(), lr=torch.tensor(1e-3)),  # type: ignore[arg-type]
    "both": Both,
    "strange": lambda model: Strange(model.parameters()),
}


def final_state(run: ToyRun) -> dict[str, Any]:
    return dict(flat(run.trainer.trained.optimizer.state_dict()))


def flat(value: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    """The leaves of a nested state by their paths, with the types that an equal state must have."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from flat(each, f"{path}/{key!r}")
    elif isinstance(value, list | tuple):
        yield path, type(value)
        for i, each in enumerate(value):
            yield from flat(each, f"{path}/{i}")
    else:
        yield path, (value.dtype, value.tolist()) if isinstance(value, Tensor) else (type(value), value)


QUICK = ("momentum", "fused", "Adafactor", "Muon")
"""Those that every run of the tests tries; `make slow` tries the others."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in OPTIMIZERS]
)
def test_a_resumed_run_is_the_unbroken_one(tmp_path: Path, name: str) -> None:
    options: dict[str, Any] = {"parts": {"optimizer": OPTIMIZERS[name]}, "settings": {"steps": 8}}
    unbroken = ToyRun(tmp_path / "unbroken", **options)
    unbroken.trainer.train()
    for step in (2, 6):
        with pytest.raises(TrainingInterrupted):
            ToyRun(tmp_path / "broken", at_step=stop_at({step: signal.SIGINT}), **options).trainer.train()
    last = ToyRun(tmp_path / "broken", **options)
    last.trainer.train()
    assert last.metrics == unbroken.metrics
    assert last.has_the_weights_of(unbroken)
    assert final_state(last) == final_state(unbroken)
    files = {path.suffix for path in (tmp_path / "broken" / "checkpoints").rglob("*") if path.is_file()}
    assert files == {".json", ".safetensors"}


def test_it_is_the_optimizer_that_trains(tmp_path: Path) -> None:
    """A step of plain SGD is the gradient times the schedule's rate, whatever rate the optimizer was made with."""
    model: list[nn.Module] = []

    def make(given: nn.Module) -> torch.optim.Optimizer:
        model.append(given)
        return torch.optim.SGD(given.parameters(), lr=123.0)

    run = ToyRun(tmp_path, parts={"optimizer": make, "schedule": lambda step: 0.5**step})
    assert model == [run.model]
    before = run.weights
    run.trainer.step(batches(run, [0, 1, 2]))
    for name, p in run.model.named_parameters():
        assert p.grad is not None
        torch.testing.assert_close(p.detach(), before[name] - 0.5 * p.grad)


@pytest.mark.slow
def test_groups_keep_the_ratio_of_their_rates(tmp_path: Path) -> None:
    def make(model: nn.Module) -> torch.optim.Optimizer:
        rest = [p for p in model.parameters() if p.dim() != 2]
        return torch.optim.SGD([{"params": matrices(model), "lr": 0.2}, {"params": rest, "lr": 0.05}], momentum=0.9)

    rates: list[tuple[int, list[float]]] = []

    def train(folder: str, stop: dict[int, Any]) -> None:
        run = ToyRun(tmp_path / folder, parts={"optimizer": make, "schedule": lambda step: 1.0 / step})
        run.at_step = stop_at(stop)
        run.trainer.hooks.step.append(
            lambda event: rates.append((event.step, [g["lr"] for g in run.trainer.trained.optimizer.param_groups]))
        )
        run.trainer.train()

    with pytest.raises(TrainingInterrupted):
        train("a", {6: signal.SIGINT})
    train("a", {})
    assert rates == [(step, [1.0 / step, pytest.approx(0.25 / step, rel=1e-12)]) for step in range(1, 13)]


@pytest.mark.slow
def test_hyperparameters_are_saved(tmp_path: Path) -> None:
    """What a hook has changed of the groups is as it was after a resumption: of the settings' Adam, too."""

    def train(folder: str, key: str, value: Any, parts: dict[str, Any], stop: dict[int, Any]) -> ToyRun:
        def change(event: StepEvent) -> None:
            if event.step == 4:
                run.trainer.trained.optimizer.param_groups[0][key] = value

        run = ToyRun(tmp_path / folder, parts=parts | {"hooks": Hooks(step=[change])}, at_step=stop_at(stop))
        run.trainer.train()
        return run

    sgd = {"optimizer": OPTIMIZERS["momentum"]}
    for folder, key, value, parts in (("sgd", "momentum", 0.5, sgd), ("adam", "weight_decay", 0.1, {})):
        unbroken = train(f"{folder} unbroken", key, value, parts, {})
        with pytest.raises(TrainingInterrupted):
            train(folder, key, value, parts, {8: signal.SIGINT})
        last = train(folder, key, value, parts, {})
        assert last.trainer.trained.optimizer.param_groups[0][key] == value
        assert last.has_the_weights_of(unbroken)


@pytest.mark.slow
def test_the_settings_adam_is_saved_as_it_always_was(tmp_path: Path) -> None:
    """So earlier versions go on with it, and this one with theirs."""
    run = ToyRun(tmp_path)
    run.trainer.train()
    folder = tmp_path / "checkpoints" / "step-00000012"
    assert sorted(path.name for path in folder.iterdir()) == [
        "model.safetensors", "optimizer.safetensors", "state.json",
    ]  # fmt: skip
    assert not {"replaced", "rate_factor"} & set(json.loads((folder / "state.json").read_text(encoding="utf-8")))


@pytest.mark.slow
def test_the_table_names_parameters_and_tensors(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, parts={"optimizer": OPTIMIZERS["momentum"]})
    run.trainer.train()
    folder = tmp_path / "checkpoints" / "step-00000012"
    table = json.loads((folder / "optimizer.json").read_text(encoding="utf-8"))
    assert (table["optimizer"], table["parameters"]) == ("SGD", [name for name, _ in run.model.named_parameters()])
    tensors, _ = split_state(run.trainer.trained.optimizer, named_parameters(run.model))
    assert set(tensors) == {f"momentum_buffer.{name}" for name, _ in run.model.named_parameters()}
    assert json.loads((folder / "state.json").read_text(encoding="utf-8"))["replaced"] == {"optimizer": "SGD"}


@pytest.mark.parametrize(
    ("began", "goes_on", "message"),
    [
        ("SGD", None, r"^the optimizer of the run in `.*` was `SGD`, and now is that of the settings$"),
        (None, "SGD", r"^the optimizer of the run in `.*` was that of the settings, and now is `SGD`$"),
        ("SGD", "Adam", r"^the optimizer of the run in `.*` was `SGD`, and now is `Adam`$"),
    ],
)
def test_another_optimizer_is_refused(tmp_path: Path, began: str | None, goes_on: str | None, message: str) -> None:
    def parts(name: str | None) -> dict[str, Any]:
        return {"optimizer": OPTIMIZERS[name]} if name else {}

    with pytest.raises(TrainingInterrupted):
        ToyRun(tmp_path, parts=parts(began), at_step=stop_at({6: signal.SIGINT})).trainer.train()
    with pytest.raises(CheckpointError, match=message) as error:
        ToyRun(tmp_path, parts=parts(goes_on)).trainer.train()
    assert error.value.hint.endswith("or start over with `fresh=True`")


def test_another_order_of_parameters_is_refused() -> None:
    model = nn.Linear(2, 2)
    known = named_parameters(model)
    tensors, table = split_state(torch.optim.SGD([model.bias, model.weight]), known)
    expected = (
        "the checkpoint has the state of another optimizer: SGD over 2 parameters, but this run has SGD over 2, "
        "or over the same in another order"
    )
    with pytest.raises(CheckpointError) as error:
        restore_state(torch.optim.SGD([model.weight, model.bias]), known, tensors, table)
    assert str(error.value) == expected


class Keeper(torch.optim.SGD):
    """Keeps what cannot be saved."""

    def __init__(self, params: Iterable[nn.Parameter], kept: object) -> None:
        super().__init__(params)
        self.param_groups[0]["kept"] = kept


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda model: torch.optim.LBFGS(model.parameters()),
            r"^`optimizer` \(LBFGS\) computes the loss several times per step, through a closure; training computes "
            r"one ",
        ),
        (
            lambda model: torch.optim.SGD([*model.parameters(), nn.Parameter(torch.ones(2))]),
            r"^1 of the 3 parameters of `optimizer` \(SGD\) do not belong to the model$",
        ),
        (lambda model: None, r"^`optimizer` \(NoneType\) has no `param_groups`$"),
        (
            lambda model: Keeper(model.parameters(), print),
            r"^the state of `optimizer` \(Keeper\) cannot be saved: `param_groups.0.kept` is of the type builtin_f",
        ),
        (
            lambda model: Keeper(model.parameters(), [torch.ones(2).to_sparse()]),
            r"^the state of `optimizer` \(Keeper\) cannot be saved: `param_groups.0.kept.0` is of the type Tensor$",
        ),
        (lambda model: Keeper(model.parameters(), {(1, 2): 3}), r"`param_groups.0.kept` is of the type dict$"),
    ],
)
def test_what_cannot_train_or_be_saved_is_refused_before_training(make: Factory, message: str) -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(ConfigError, match=message) as error:
        check_optimizer(make(model), named_parameters(model))
    assert error.value.hint


def test_state_that_cannot_be_saved_is_refused_after_the_first_step(tmp_path: Path) -> None:
    class Late(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            super().step()
            self.state[self.param_groups[0]["params"][0]]["hook"] = print

    run = ToyRun(tmp_path, parts={"optimizer": lambda model: Late(model.parameters())})
    with pytest.raises(ConfigError, match=r"cannot be saved: `state.0.hook` is of the type builtin_function_or_"):
        run.trainer.train()
    assert run.trainer.state.step == 1


@pytest.mark.slow
def test_parameters_that_are_left_out_stay_and_that_is_said(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, parts={"optimizer": OPTIMIZERS["Muon"]})
    before = run.weights
    left = [name for name, p in run.model.named_parameters() if p.dim() != 2]
    expected = f"{len(left)} parameters are in no group of the optimizer and are not trained (first: `{left[0]}`)"
    assert f"warning: {expected}" in run.said
    run.trainer.train()
    changed = {name for name, weights in run.weights.items() if not torch.equal(weights, before[name])}
    assert changed == set(before) - set(left)
