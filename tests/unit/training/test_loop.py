"""The loop: what a step computes, what happens when, and that a resumed run is the unbroken one."""

import math
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.data.batching import Batch, BucketBatchSampler, Indices, collate_batch
from pellucid.data.shards import EncodedCorpus
from pellucid.errors import PellucidError
from pellucid.training.gradients import _make_seed
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.loss import CrossEntropy, make_loss
from pellucid.training.schedule import learning_rate
from pellucid.training.validation import Validation
from pellucid.weights.tensors import load_tensors
from tests.unit.training.toy_run import ToyRun, toy_shard


def batches(run: ToyRun, *groups: list[int]) -> list[Batch]:
    return [collate_batch(run.trainer.shard, np.array(group), run.model.config) for group in groups]


def one_step(run: ToyRun, *groups: list[int]) -> tuple[float, float, dict[str, torch.Tensor]]:
    """The loss, the gradient's norm and the gradients of one step over these groups of sentences."""
    taken = run.trainer.step(batches(run, *groups))
    return (
        taken.loss.item(),
        taken.norm.item(),
        {name: p.grad.clone() for name, p in run.model.named_parameters() if p.grad is not None},
    )


@pytest.mark.parametrize("groups", [[[0, 1, 2, 3, 4, 5], [6, 7], [8]], [[0], [1, 2, 3, 4, 5, 6, 7, 8]]])
def test_accumulated_batches_make_the_gradient_of_one_batch(tmp_path: Path, groups: list[list[int]]) -> None:
    whole = ToyRun(tmp_path / "whole", dropout=0.0)
    parts = ToyRun(tmp_path / "parts", dropout=0.0)
    counts = {batch.num_tokens for batch in batches(parts, *groups)}
    assert len(counts) > 1, "different token counts, else a mean of means would pass as well"
    loss, norm, expected = one_step(whole, list(range(9)))
    parts_loss, parts_norm, found = one_step(parts, *groups)
    assert parts_loss == pytest.approx(loss, rel=1e-5)
    assert parts_norm == pytest.approx(norm, rel=1e-4)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_the_gradient_is_of_the_mean_over_tokens(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, dropout=0.0)
    (batch,) = batches(run, [0, 1, 2])
    total = CrossEntropy(run.config.label_smoothing)(run.model.train(), batch).minimised
    gradients = torch.autograd.grad(total / batch.num_tokens, list(run.model.parameters()))
    expected_norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
    loss, norm, _ = one_step(run, [0, 1, 2])
    assert (loss, norm) == pytest.approx((total.item(), expected_norm), rel=1e-5)


def test_the_gradient_is_clipped_to_its_norm(tmp_path: Path) -> None:
    _, norm, gradients = one_step(ToyRun(tmp_path, settings={"grad_clip": 0.01}), [0, 1, 2])
    assert norm > 0.01, "what is reported is the norm before clipping"
    assert math.sqrt(sum(float((g**2).sum()) for g in gradients.values())) == pytest.approx(0.01, rel=1e-3)


def test_dropout_follows_from_seed_and_step_alone(tmp_path: Path) -> None:
    def loss(step: int, seed: int, before: int) -> float:
        run = ToyRun(tmp_path, settings={"seed": seed})
        torch.manual_seed(before)
        run.trainer.state.step = step
        return run.trainer.step(batches(run, [0, 1, 2])).loss.item()

    assert loss(4, 1, before=1) == loss(4, 1, before=2)
    assert len({loss(4, 1, before=1), loss(5, 1, before=1), loss(4, 2, before=1)}) == 3


def test_a_loss_that_is_not_finite_stops_the_run_before_the_weights_change(tmp_path: Path) -> None:
    run = ToyRun(tmp_path)
    run.model.output_projection.weight.data[5, 0] = math.inf
    before = run.weights
    with pytest.raises(
        PellucidError, match=r"not finite at step 1 \(loss nan, gradient norm nan, learning rate 0\.00333\)"
    ) as error:
        run.trainer.train()
    assert "`fresh=True`" in error.value.hint
    torch.testing.assert_close(run.weights, before, equal_nan=True)
    assert not (tmp_path / "checkpoints").exists()


def test_what_happens_when(tmp_path: Path) -> None:
    run = ToyRun(tmp_path)
    state = run.trainer.train()
    events = [(line["event"], line["step"]) for line in run.metrics]
    assert [step for event, step in events if event == "train"] == [2, 4, 6, 8, 10, 12]
    assert [step for event, step in events if event == "validation"] == [4, 8, 12]
    assert events[-3:] == [("candidate", 12)] * 3
    assert {"step-00000009", "step-00000012"} < set(run.checkpoints)
    assert state.step == 12
    assert state.tokens == [line for line in run.metrics if line["event"] == "train"][-1]["tokens"] > 0
    assert state.epoch >= 2, "several epochs"
    rates = [line["learning_rate"] for line in run.metrics if line["event"] == "train"]
    assert rates == [learning_rate(step, run.config, run.model.config.d_model) for step in (2, 4, 6, 8, 10, 12)]


def test_the_last_step_is_due_for_everything(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, settings={"steps": 5, "validate_every": 50, "save_every": 50, "log_every": 50})
    run.trainer.train()
    assert [(line["event"], line["step"]) for line in run.metrics] == [("train", 5), ("validation", 5)]
    assert run.checkpoints == ["step-00000005"]
    assert len(run.published) == 1


def test_the_reported_loss_is_the_mean_since_the_last_report(tmp_path: Path) -> None:
    every = ToyRun(tmp_path / "1", settings={"log_every": 1})
    every.trainer.train()
    fourth = ToyRun(tmp_path / "4", settings={"log_every": 4})
    fourth.trainer.train()
    single = [line for line in every.metrics if line["event"] == "train"]
    tokens = np.diff([0, *(line["tokens"] for line in single)])
    sums = tokens * [line["loss"] for line in single]
    expected = [sums[i : i + 4].sum() / tokens[i : i + 4].sum() for i in (0, 4, 8)]
    found = [line["loss"] for line in fourth.metrics if line["event"] == "train"]
    assert found == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_the_reported_loss_is_the_cross_entropy_alone(tmp_path: Path, r_drop: float) -> None:
    run = ToyRun(tmp_path, settings={"r_drop": r_drop})
    (batch,) = batches(run, [0, 1, 2])
    loss = make_loss(run.config)
    found = loss(run.model.train(), batch)
    assert (found.minimised > found.reported) == bool(r_drop)
    torch.manual_seed(_make_seed(run.config.seed, 1))
    expected = loss(run.model, batch).reported
    assert one_step(run, [0, 1, 2])[0] == expected.item()


@pytest.mark.parametrize("broken_at", [0, 2, 4, 6])
def test_each_sentence_is_drawn_with_the_epoch_of_its_own_batch(tmp_path: Path, broken_at: int) -> None:
    """Two batches make a step, three an epoch: some steps have batches of two epochs."""
    drawn: list[tuple[int, list[int]]] = []

    class Noting:
        """Draws the stored ids."""

        def draw(self, shard: EncodedCorpus, epoch: int, draws: Indices) -> Any:
            drawn.append((epoch, draws.tolist()))
            return [shard.source[i] for i in draws], [shard.target[i] for i in draws]

    def train(steps: dict[int, int]) -> None:
        run = ToyRun(tmp_path, at_step=stop_at(steps), settings={"batch_tokens": 60})
        run.trainer.sampling = Noting()  # type: ignore[assignment]
        with pytest.raises(TrainingInterrupted) if steps else nullcontext():
            run.trainer.train()

    if broken_at:
        train({broken_at: signal.SIGINT})
    train({})
    shard = toy_shard()
    order = BucketBatchSampler(shard.source.lengths, shard.target.lengths, batch_tokens=60, seed=1)
    expected = [(epoch, batch.tolist()) for epoch, _, batch in islice(order.iterate_from(0, 0), 2 * 12)]
    epochs = [epoch for epoch, _ in expected]
    assert epochs[::2] != epochs[1::2], "a step of two epochs"
    in_batches = [(epoch, draws) for epoch, draws in drawn if len(draws) < len(shard)]  # others are for their lengths
    assert in_batches == expected


def test_the_best_weights_are_kept(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, scores=[10.0, 30.0, 20.0], settings={"average": 1})
    state = run.trainer.train()
    assert (state.best_bleu, state.best_step, len(run.published)) == (30.0, 8, 2)
    assert [line["best"] for line in run.metrics if line["event"] == "validation"] == [True, True, False]
    assert not all(torch.equal(run.published[-1][name], weights) for name, weights in run.weights.items())


def test_the_mean_of_the_last_checkpoints_is_kept_where_it_is_the_best(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, scores=[30.0, 20.0, 10.0, 30.0, 40.0, 20.0])
    run.trainer.train()
    paths = [tmp_path / "checkpoints" / f"step-{step:08d}" for step in (9, 12)]
    first, second = (load_tensors(path / "model.safetensors") for path in paths)
    for name, found in run.published[-1].items():
        torch.testing.assert_close(found, (first[name] + second[name]) / 2)
    kept = [line for line in run.metrics if line.get("kept")]
    assert [(line["candidate"], line["checkpoints"]) for line in kept] == [("mean of last", [9, 12])]


@pytest.mark.parametrize(("bleu", "text"), [(12.5, "2.000, BLEU 12.50 (greedy)"), (None, "2.000")])
def test_a_validation_in_words(bleu: float | None, text: str) -> None:
    assert str(Validation(loss=2.0, bleu=bleu)) == f"validation loss {text}"


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (Validation(2.0, 12.0), Validation(3.0, 12.5)),  # BLEU decides
        (Validation(2.0), Validation(1.9)),  # where there is none, the loss
        (Validation(2.0, 0.0), Validation(1.9, 0.0)),  # and where none of the outputs has four words in a row right
    ],
)
def test_which_weights_are_better(worse: Validation, better: Validation) -> None:
    assert better.score() > worse.score()


def test_the_last_step_counts_for_the_average(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, settings={"steps": 10, "save_every": 4, "average": 3})
    run.trainer.train()
    assert [path.name for path in run.trainer.saving.checkpoints.to_average()] == [
        "step-00000004", "step-00000008", "step-00000010",
    ]  # fmt: skip


def test_one_checkpoint_is_no_average(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, settings={"steps": 5, "save_every": 50, "average": 3})
    run.trainer.train()
    assert {line["candidate"] for line in run.metrics if line["event"] == "candidate"} == {"best", "mean of best"}


def stop_at(steps: dict[int, int]) -> Callable[[int], None]:
    """Sends a signal, once, when the metrics of a step are written."""

    def stop(step: int) -> None:
        if step in steps:
            os.kill(os.getpid(), steps.pop(step))

    return stop


@pytest.mark.parametrize("stops", [[2], [6], [4, 8], [2, 4, 6, 8, 10]])
def test_a_resumed_run_is_the_unbroken_one(tmp_path: Path, stops: list[int]) -> None:
    unbroken = ToyRun(tmp_path / "unbroken")
    expected = unbroken.trainer.train()
    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    steps = {step: signals[i % 3] for i, step in enumerate(stops)}
    for i, step in enumerate(stops):
        broken = ToyRun(tmp_path / "broken", at_step=stop_at(steps))  # type: ignore[arg-type]
        with pytest.raises(TrainingInterrupted, match=f"interrupted by {signals[i % 3].name}"):
            broken.trainer.train()
        assert f"step-{step:08d}" in broken.checkpoints
    last = ToyRun(tmp_path / "broken")
    state = last.trainer.train()
    assert f"resuming after step {stops[-1]:,} of 12" in last.said
    assert last.metrics == unbroken.metrics
    for name, weights in unbroken.weights.items():
        assert torch.equal(last.weights[name], weights), name
    for key in ("step", "epoch", "position", "tokens", "best_loss", "best_bleu", "best_step"):
        assert getattr(state, key) == getattr(expected, key), key


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def kill(step: int) -> None:
        if step == 8:
            raise Killed

    unbroken = ToyRun(tmp_path / "unbroken")
    unbroken.trainer.train()
    with pytest.raises(Killed):
        ToyRun(tmp_path / "broken", at_step=kill).trainer.train()
    last = ToyRun(tmp_path / "broken")
    last.trainer.train()
    assert "resuming after step 6 of 12" in last.said
    assert last.metrics == unbroken.metrics
    assert last.has_the_weights_of(unbroken)


def test_an_interruption_at_the_last_step_finishes_the_run(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, at_step=stop_at({12: signal.SIGINT}))
    assert run.trainer.train().step == 12
    assert run.metrics[-1]["event"] == "candidate"


def test_a_finished_run_only_averages_again(tmp_path: Path) -> None:
    first = ToyRun(tmp_path)
    first.trainer.train()
    lines = first.metrics
    again = ToyRun(tmp_path)
    again.trainer.train()
    assert again.metrics == lines
    assert len(again.published) == 1
    assert all(torch.equal(again.published[0][name], weights) for name, weights in first.published[-1].items())


@pytest.mark.slow
def test_two_runs_are_equal_and_another_seed_is_not(tmp_path: Path) -> None:
    def final(name: str, **settings: Any) -> dict[str, torch.Tensor]:
        run = ToyRun(tmp_path / name, settings=settings)
        run.trainer.train()
        return run.weights

    first, second, other = final("1"), final("2"), final("3", seed=2)
    assert all(torch.equal(second[name], weights) for name, weights in first.items())
    assert not any(torch.equal(other[name], weights) for name, weights in first.items())
