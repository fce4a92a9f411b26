"""Hooks: what they are told and when, their numbers in the metrics, stopping, and the rate that they scale."""

import json
import math
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.errors import ConfigError
from pellucid.training.events import CheckpointEvent, EndEvent, Event, Hooks, StepEvent, ValidationEvent
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.schedule import learning_rate
from tests.unit.training.test_loop import stop_at
from tests.unit.training.toy_run import ToyRun


def listening(folder: Path, **options: Any) -> tuple[ToyRun, list[Event]]:
    """A run whose hooks note all events."""
    told: list[Event] = []
    hooks = Hooks(*([told.append] for _ in range(4)))  # type: ignore[list-item]
    return ToyRun(folder, parts={"hooks": hooks}, **options), told


def test_hooks_are_told_what_happens_in_its_order(tmp_path: Path) -> None:
    run, told = listening(tmp_path)
    state = run.trainer.train()
    kinds = {StepEvent: "s", ValidationEvent: "v", CheckpointEvent: "c", EndEvent: "e"}
    order = " ".join(f"{kinds[type(event)]}{event.step}" for event in told)  # type: ignore[index]
    assert order == "s1 s2 s3 c3 s4 v4 c4 s5 s6 c6 s7 s8 v8 c8 s9 c9 s10 s11 s12 v12 c12 e12"
    steps = [event for event in told if isinstance(event, StepEvent)]
    assert [e.learning_rate for e in steps] == [learning_rate(s, run.config, 8) for s in range(1, 13)]
    lines = {line["step"]: line for line in run.metrics if line["event"] == "train"}
    for first, second in zip(steps[0::2], steps[1::2], strict=True):
        line = lines[second.step]
        tokens = second.tokens - first.tokens, first.tokens - (0 if first.step == 1 else steps[first.step - 2].tokens)
        mean = (second.loss * tokens[0] + first.loss * tokens[1]) / sum(tokens)
        assert line["loss"] == pytest.approx(mean, abs=1e-4)
        assert line["tokens"] == second.tokens
        assert line["gradient_norm"] == pytest.approx(second.gradient_norm, abs=1e-4)
    validations = [event for event in told if isinstance(event, ValidationEvent)]
    assert [(e.loss, e.numbers["loss"], e.best) for e in validations] == [
        (line["loss"], line["loss"], line["best"]) for line in run.metrics if line["event"] == "validation"
    ]
    saved = [event for event in told if isinstance(event, CheckpointEvent)]
    assert saved[0].folder == tmp_path / "checkpoints" / "step-00000003"
    assert saved[0].loss == steps[2].loss
    end = told[-1]
    assert isinstance(end, EndEvent)
    assert (end.loss, end.tokens, end.chosen) == (state.best_loss, state.tokens, run.trainer.selection.chosen)


@pytest.mark.slow
def test_hooks_change_nothing(tmp_path: Path) -> None:
    """Also where they draw random numbers or leave the model in another mode."""

    def careless(event: Event) -> None:
        torch.rand(event.step)
        torch.manual_seed(7)
        run.model.eval()

    plain = ToyRun(tmp_path / "plain")
    plain.trainer.train()
    run = ToyRun(tmp_path / "run", parts={"hooks": Hooks(*([careless] for _ in range(4)))})
    run.trainer.train()
    assert run.metrics == plain.metrics
    assert run.has_the_weights_of(plain)


@pytest.mark.slow
def test_their_numbers_are_in_the_line_of_the_step(tmp_path: Path) -> None:
    hooks = Hooks(
        step=[lambda e: {"double": 2 * e.step} if e.step != 7 else None, lambda e: {"norm": torch.tensor(0.5)}],  # type: ignore[dict-item]
        validation=[lambda e: {"perplexity": math.exp(e.loss)}],
        checkpoint=[lambda e: {"files": len(list(e.folder.iterdir()))}],
        end=[lambda e: {"steps": e.step}],
    )
    run = ToyRun(tmp_path, parts={"hooks": hooks})
    run.trainer.train()
    doubles = {line["step"]: (line["event"], line["double"]) for line in run.metrics if "double" in line}
    assert doubles == {s: ("step" if s % 2 else "train", 2 * s) for s in range(1, 13) if s != 7}
    assert [line["norm"] for line in run.metrics if line["event"] in ("step", "train")] == [0.5] * 12
    for line in run.metrics:
        assert ("perplexity" in line) == (line["event"] == "validation")
    assert [line for line in run.metrics if line["event"] == "checkpoint"] == [
        {"event": "checkpoint", "step": step, "files": 3} for step in (3, 4, 6, 8, 9, 12)
    ]
    assert run.metrics[-1] == {"event": "end", "step": 12, "steps": 12}


@pytest.mark.slow
def test_numbers_are_the_same_after_an_interruption(tmp_path: Path) -> None:
    def make(folder: str, stop: dict[int, Any]) -> ToyRun:
        hooks = Hooks(step=[lambda e: {"x": e.loss}], validation=[lambda e: {"y": e.step}], end=[lambda e: {"z": 1}])
        return ToyRun(tmp_path / folder, parts={"hooks": hooks}, at_step=stop_at(stop))

    unbroken = make("unbroken", {})
    unbroken.trainer.train()
    for stop in (1, 5, 8):
        with pytest.raises(TrainingInterrupted):
            make("broken", {stop: signal.SIGINT}).trainer.train()
    make("broken", {}).trainer.train()
    last = make("broken", {})
    last.trainer.train()
    assert last.metrics == unbroken.metrics


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["step", "validation"])
def test_a_hook_stops_the_run_as_if_that_step_were_the_last(tmp_path: Path, kind: str) -> None:
    """Everything that a last step has is there, and the finished run stays finished."""

    def stop(event: Any) -> None:
        if event.step == 8:
            event.stop()

    run = ToyRun(tmp_path, parts={"hooks": Hooks(**{kind: [stop]})}, settings={"log_every": 5})
    state = run.trainer.train()
    assert (state.step, state.last_step, state.stopped_early) == (8, 8, True)
    events = [line["event"] for line in run.metrics if line["step"] == 8]
    assert sorted(events) == ["candidate"] * 3 + ["stop", "train", "validation"]
    assert "step 8 is the last of 12: requested by a hook" in run.said
    assert "step-00000008" in run.checkpoints
    again = ToyRun(tmp_path, settings={"log_every": 5})
    assert again.trainer.train().step == 8
    assert again.metrics == run.metrics


@pytest.mark.slow
def test_the_run_itself_can_be_stopped(tmp_path: Path) -> None:
    run = ToyRun(tmp_path)
    run.trainer.hooks.checkpoint.append(lambda event: run.trainer.stop() if event.step == 6 else None)
    assert run.trainer.train().step == 7, "the checkpoint was that of a run that goes on: the next step is the last"


@pytest.mark.slow
def test_a_scaled_rate_is_part_of_the_state(tmp_path: Path) -> None:
    def slow_down(event: ValidationEvent) -> None:
        if event.step == 4:
            event.scale_rate(0.5)
            event.scale_rate(0.5)

    def make(folder: str, stop: dict[int, Any]) -> ToyRun:
        parts = {"hooks": Hooks(validation=[slow_down])}
        return ToyRun(tmp_path / folder, parts=parts, settings={"log_every": 1}, at_step=stop_at(stop))

    unbroken = make("unbroken", {})
    unbroken.trainer.train()
    rates = {line["step"]: line["learning_rate"] for line in unbroken.metrics if line["event"] == "train"}
    planned = {step: learning_rate(step, unbroken.config, 8) for step in range(1, 13)}
    assert rates == {step: rate * (1 if step <= 4 else 0.25) for step, rate in planned.items()}
    for stop in (4, 6):
        with pytest.raises(TrainingInterrupted):
            make("broken", {stop: signal.SIGINT}).trainer.train()
    last = make("broken", {})
    last.trainer.train()
    assert last.metrics == unbroken.metrics
    assert last.has_the_weights_of(unbroken)
    table = json.loads((tmp_path / "broken/checkpoints/step-00000012/state.json").read_text(encoding="utf-8"))
    assert table["rate_factor"] == 0.25


@pytest.mark.parametrize("factor", [0, -1.0, math.nan, math.inf])
def test_a_rate_cannot_be_scaled_by(tmp_path: Path, factor: float) -> None:
    run = ToyRun(tmp_path, parts={"hooks": Hooks(step=[lambda event: event.scale_rate(factor)])})  # type: ignore[func-returns-value]
    with pytest.raises(ConfigError, match=r"^`factor` \(\S+\) of a learning rate must be a finite number above 0$"):
        run.trainer.train()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (3, r"^the hook `.*` returned int$"),
        ({1: 2.0}, r"^the hook `.*` returned 1 as a name$"),
        ({"x": "y"}, r"^`x` of the hook `.*` is str, not a number$"),
        ({"x": torch.ones(2)}, r"^`x` of the hook `.*` is Tensor, not a number$"),
        ({"loss": 1.0}, r"^the hook `.*` returned `loss`, which the line of metrics.jsonl already has$"),
    ],
)
def test_what_a_hook_cannot_return(tmp_path: Path, returned: Any, message: str) -> None:
    run = ToyRun(tmp_path, parts={"hooks": Hooks(step=[lambda event: returned])})
    with pytest.raises(ConfigError, match=message) as error:
        run.trainer.train()
    assert error.value.hint


def test_two_hooks_cannot_return_the_same_name(tmp_path: Path) -> None:
    hooks = Hooks(step=[lambda event: {"x": 1.0}, lambda event: {"x": 2.0}])
    with pytest.raises(ConfigError, match="returned `x`, which"):
        ToyRun(tmp_path, parts={"hooks": hooks}).trainer.train()


@pytest.mark.slow
def test_in_a_validation_the_model_is_the_moving_average(tmp_path: Path) -> None:
    seen: list[bool] = []

    def look(event: ValidationEvent) -> None:
        assert run.trainer.step.moving_average is not None
        judged = run.published[-1] if event.best else run.weights
        seen.append(all(torch.equal(weights, judged[name]) for name, weights in run.weights.items()))

    run = ToyRun(tmp_path, parts={"hooks": Hooks(validation=[look])}, settings={"ema_decay": 0.6})
    run.trainer.train()
    assert seen == [True] * 3
