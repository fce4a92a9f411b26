"""Which validation is the best, what is averaged of them, and when a run ends because none gets better."""

import math
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import TrainConfig
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.state import RunState
from pellucid.training.validation import Validation, update_best
from pellucid.weights.tensors import load_tensors
from tests.unit.training.test_loop import stop_at
from tests.unit.training.toy_run import ToyRun

BEST: dict[str, Any] = {"average_strategy": "best", "validate_every": 1, "steps": 8, "save_every": 3}
SCORES = [5.0, 30.0, 10.0, 20.0, 40.0, 1.0, 2.0, 3.0]
"""What validation finds at steps 1 to 8: the best two are those of steps 5 and 2."""
PATIENT: dict[str, Any] = {"patience": 2, "validate_every": 2, "save_every": 5}


def after(scores: list[tuple[float, float | None]], **settings: Any) -> RunState:
    """The state after validations of these losses and BLEU scores at steps 1, 2, 3 ..."""
    state = RunState()
    for state.step, (loss, bleu) in enumerate(scores, start=1):
        update_best(Validation(loss, bleu), state, TrainConfig(**settings))
    return state


def test_the_best_is_by_bleu_or_by_loss() -> None:
    scores: list[tuple[float, float | None]] = [(2.0, 10.0), (1.0, 8.0), (3.0, 12.0), (3.5, 11.0)]
    by_bleu, by_loss = after(scores), after(scores, best_metric="loss")
    assert (by_bleu.best_step, by_bleu.best_bleu, by_bleu.bad_validations) == (3, 12.0, 1)
    assert (by_loss.best_step, by_loss.best_loss, by_loss.bad_validations) == (2, 1.0, 2)


def test_bleu_below_one_decides_nothing() -> None:
    assert after([(5.0, 0.24), (4.0, 0.11), (4.5, 0.99)]).best_step == 2
    assert after([(5.0, 0.24), (4.0, 0.11), (4.5, 1.0), (4.0, 0.5)]).best_step == 3


def test_the_best_by_chrf() -> None:
    found = [Validation(3.0, 10.0, chrf=30.0), Validation(2.0, 9.0, chrf=31.0), Validation(1.0, 12.0, chrf=31.0)]
    for by, best in (("chrf", 3), ("score", 3), ("loss", 3)):
        state = RunState()
        for state.step, validation in enumerate(found, start=1):
            update_best(validation, state, TrainConfig(best_metric=by))  # type: ignore[arg-type]
        assert state.best_step == best
    state = RunState()
    for state.step, validation in enumerate(found[:2], start=1):
        update_best(validation, state, TrainConfig(best_metric="chrf"))
    assert (state.best_step, state.best_chrf, state.best_bleu) == (2, 31.0, 9.0)


def test_bits_and_chrf_are_shown_and_logged() -> None:
    found = Validation(3.0, 10.0, chrf=30.0, bits_per_byte=1.25)
    assert str(found) == "validation loss 3.000, 1.250 bits per byte, BLEU 10.00 (greedy), chrF 30.00"
    assert found.numbers == {"loss": 3.0, "bleu": 10.0, "chrf": 30.0, "bits_per_byte": 1.25}
    assert Validation(3.0).numbers == {"loss": 3.0, "bleu": None}


def test_the_score_of_a_classifier_is_accuracy() -> None:
    state = RunState()
    for state.step, (loss, accuracy) in enumerate([(0.7, 0.6), (0.9, 0.8), (0.5, 0.7)], start=1):
        update_best(Validation(loss, accuracy=accuracy), state, TrainConfig(best_metric="score"))
    assert (state.best_step, state.best_accuracy) == (2, 0.8)


def test_an_older_name_of_the_score() -> None:
    assert TrainConfig(best_metric="bleu") == TrainConfig(best_metric="score") == TrainConfig()


def test_a_validation_that_is_not_finite_is_never_the_best() -> None:
    assert after([(math.nan, None), (5.0, None), (math.nan, None), (math.inf, None)]).best_step == 2


def test_the_ranking_holds_as_many_as_are_averaged() -> None:
    scores: list[tuple[float, float | None]] = [(1.0, 10.0), (1.0, 30.0), (1.0, 20.0), (0.5, 20.0), (1.0, 30.0)]
    for of in ("last", "best"):
        state = after(scores, average_strategy=of, average=3)
        assert [int(-row[-1]) for row in state.ranking] == [2, 5, 4], "of equal ones the earlier first"
    assert after(scores, average=1).ranking == []


@pytest.mark.slow
def test_the_checkpoints_that_validated_best_are_averaged(tmp_path: Path) -> None:
    at: dict[int, dict[str, torch.Tensor]] = {}
    run = ToyRun(tmp_path, settings=BEST, scores=[*SCORES, 40.0, 50.0])
    run.at_step = lambda step: at.setdefault(step, run.weights) and None
    run.trainer.train()
    assert run.checkpoints == ["step-00000002", "step-00000005", "step-00000006", "step-00000008"]
    for name, found in run.published[-1].items():
        torch.testing.assert_close(found, (at[2][name] + at[5][name]) / 2)
    assert [(line["candidate"], line["bleu"]) for line in run.metrics[-2:]] == [("best", 40.0), ("mean of best", 50.0)]
    assert "the mean of the best 2 checkpoints: validation loss 1.000, BLEU 50.00 (greedy)" in run.said
    assert not (tmp_path / "checkpoints" / "step-00000002" / "optimizer.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("stop", [4, 6])
def test_the_best_are_the_same_after_an_interruption(tmp_path: Path, stop: int) -> None:
    settings = BEST | {"log_every": 1}
    unbroken = ToyRun(tmp_path / "unbroken", settings=settings, scores=[*SCORES, 40.0, 50.0])
    unbroken.trainer.train()
    broken = ToyRun(
        tmp_path / "broken", settings=settings, scores=SCORES[:stop], at_step=stop_at({stop: signal.SIGTERM})
    )
    with pytest.raises(TrainingInterrupted):
        broken.trainer.train()
    last = ToyRun(tmp_path / "broken", settings=settings, scores=[*SCORES[stop:], 40.0, 50.0])
    last.trainer.train()
    assert last.metrics == unbroken.metrics
    assert all(torch.equal(last.published[-1][name], weights) for name, weights in unbroken.published[-1].items())


@pytest.mark.slow
def test_without_progress_the_run_ends_as_if_it_were_the_last_step(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, settings=PATIENT | {"log_every": 5}, scores=[10.0, 20.0, 19.0, 20.0, 20.0, 60.0, 30.0])
    state = run.trainer.train()
    assert (state.step, state.last_step, state.bad_validations) == (8, 8, 2)
    events = [(line["event"], line["step"]) for line in run.metrics]
    assert events == [
        ("validation", 2), ("validation", 4), ("train", 5), ("validation", 6), ("validation", 8), ("train", 8),
        ("stop", 8), *[("candidate", 8)] * 3,
    ]  # fmt: skip
    means = {line["candidate"]: line["checkpoints"] for line in run.metrics[-2:]}
    assert means["mean of last"] == [5, 8], "the last step's checkpoint counts, though it is not the fifth"
    assert means["mean of best"] == [4, 8]
    expected = "step 8 is the last of 12: 2 validations without a new best (`train.patience`); the best was at step 4"
    assert expected in run.said


@pytest.mark.slow
@pytest.mark.parametrize("losses", [[2.0, 1.9, 1.8], [2.0, 2.1, 2.2]])
def test_a_loss_that_was_still_falling_is_told_of(tmp_path: Path, losses: list[float]) -> None:
    scores = [Validation(loss, bleu) for loss, bleu in zip(losses, [3.0, 2.0, 1.0], strict=True)]
    run = ToyRun(tmp_path, settings=PATIENT, scores=scores)
    assert run.trainer.train().step == 6
    falling = "; the validation loss was still falling: a larger `train.patience` may help"
    (said,) = (line for line in run.said if "the best was at step 2" in line)
    assert said.endswith(falling) == (losses[0] > losses[-1])


def test_a_run_that_has_ended_early_does_not_go_on(tmp_path: Path) -> None:
    first = ToyRun(tmp_path, settings=PATIENT, scores=[10.0, 9.0, 8.0, 7.0])
    first.trainer.train()
    again = ToyRun(tmp_path, settings=PATIENT, scores=[])
    assert again.trainer.train().step == 6
    assert again.metrics == first.metrics
    assert "resuming after step 6 of 6" in again.said
    weights = load_tensors(tmp_path / "checkpoints" / "step-00000005" / "model.safetensors")
    assert set(weights) == set(again.weights)


@pytest.mark.slow
def test_patience_counts_on_after_an_interruption(tmp_path: Path) -> None:
    broken = ToyRun(tmp_path, settings=PATIENT, scores=[10.0, 9.0], at_step=stop_at({4: signal.SIGINT}))
    with pytest.raises(TrainingInterrupted):
        broken.trainer.train()
    last = ToyRun(tmp_path, settings=PATIENT, scores=[8.0, 50.0])
    assert last.trainer.train().step == 6


@pytest.mark.slow
def test_progress_at_the_last_validation_goes_on(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, settings=PATIENT, scores=[10.0, 9.0, 11.0, 10.0, 12.0, 11.0, 10.0])
    assert run.trainer.train().step == 12
    assert "stop" not in {line["event"] for line in run.metrics}
