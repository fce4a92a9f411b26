"""A loss that is not finite ends the run before the update, and the message says where it comes from."""

import math
from pathlib import Path

import pytest
import torch

from pellucid.data.batching import Batch
from pellucid.errors import PellucidError
from pellucid.model.transformer import Transformer
from pellucid.training.loss import CrossEntropy, Losses
from pellucid.training.validation import Validation
from tests.unit.training.test_loop import batches
from tests.unit.training.toy_run import ToyRun

GROUPS = [[3, 4], [0, 1, 2, 5, 6, 7, 8]]
RATE = r"learning rate 0\.00333\); the weights were not changed; "


def failure(run: ToyRun, *groups: list[int]) -> PellucidError:
    """The error of a step over these groups of pairs; weights, moments and average must be as before."""
    before = run.weights
    with pytest.raises(PellucidError) as error:
        run.trainer.step(batches(run, *groups))
    torch.testing.assert_close(run.weights, before, equal_nan=True)
    assert (run.trainer.state.step, len(run.trainer.trained.optimizer.state)) == (0, 0)
    assert "`fresh=True`" in error.value.hint
    return error.value


class Poisoned:
    """A loss that is not finite, or has no finite gradient, where a batch has one of these pairs."""

    def __init__(self, sentences: set[int], value: float, in_gradient: bool = False) -> None:
        self.sentences, self.value, self.in_gradient = sentences, value, in_gradient
        self.computed: list[int] = []
        """The sizes of the batches."""

    def __call__(self, model: Transformer, batch: Batch) -> Losses:
        self.computed.append(len(batch.src))
        found = CrossEntropy(0.1)(model, batch)
        if not self.sentences & set(batch.sentences.tolist()):
            return found
        if self.in_gradient:
            none = (model.output_projection.weight.sum() * 0).sqrt()  # 0, with the gradient 0 / 0
            return found._replace(minimised=found.minimised + none)
        return Losses(found.minimised * self.value, found.reported * self.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_pair_is_found(tmp_path: Path, value: float) -> None:
    loss = Poisoned({6}, value)
    run = ToyRun(tmp_path, parts={"loss": loss})
    run.trainer.step.text_of = "`a b` and `text of {}`".format
    error = failure(run, *GROUPS)
    assert str(error).startswith(f"the loss is not finite at step 1 (loss {value}, gradient norm nan, ")
    assert str(error).endswith(
        "learning rate 0.00333); the weights were not changed; it comes from training pair 7 (`a b` and `text of 6`)"
    )
    assert len(loss.computed) <= 2 + 2 + 4, "by halves"


def test_a_gradient_that_is_not_finite(tmp_path: Path) -> None:
    error = failure(ToyRun(tmp_path, parts={"loss": Poisoned({1}, 0.0, in_gradient=True)}), *GROUPS)
    assert "gradient norm nan" in str(error)
    assert "(loss nan" not in str(error)
    assert str(error).endswith("it comes from training pair 2")


def test_a_step_of_which_no_pair_is_to_blame(tmp_path: Path) -> None:
    def only_together(model: Transformer, batch: Batch) -> Losses:
        found = CrossEntropy(0.1)(model, batch)
        return found._replace(reported=found.reported * (math.nan if len(batch.src) > 4 else 1))

    error = failure(ToyRun(tmp_path, parts={"loss": only_together}), *GROUPS)
    expected = (
        "no pair causes it alone; the pairs of the step begin with training pair 4; training pair 5; training pair 1"
    )
    assert str(error).endswith(expected)


def test_weights_that_are_broken_already(tmp_path: Path) -> None:
    run = ToyRun(tmp_path)
    run.model.decoder.layers[0].feed_forward.up_proj.weight.data[1, 1] = math.nan
    error = failure(run, *GROUPS)
    expected = "1 parameters are not finite already (first: `decoder.layers.0.feed_forward.up_proj.weight`)"
    assert str(error).endswith(expected)


@pytest.mark.slow
def test_a_long_text_is_cut(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, parts={"loss": Poisoned({3}, math.nan)})
    run.trainer.step.text_of = lambda index: "word " * 100
    text = str(failure(run, *GROUPS)).partition("training pair 4 ")[2]
    assert len(text) == 302
    assert text.endswith("…)")


@pytest.mark.slow
@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_validation_that_is_not_finite_ends_the_run(tmp_path: Path, loss: float) -> None:
    run = ToyRun(tmp_path)
    run.trainer.selection.validate_some = lambda: Validation(loss)
    expected = (
        rf"^the loss is not finite in the validation after step 4 \(loss {loss}, learning rate 0\.00\d+\); the wei"
    )
    with pytest.raises(PellucidError, match=expected) as error:
        run.trainer.train()
    assert error.value.hint.startswith("start over with `fresh=True` and a lower `train.learning_rate`")
    assert error.value.exit_status == 1
    assert run.published == []


def test_weights_to_start_from_that_are_damaged_are_said(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, settings={"init_from": "base"})
    run.trainer.has_start = True
    run.trainer.selection.validate_some = lambda: Validation(math.nan)
    with pytest.raises(PellucidError, match=r"^the weights of `base`, from which the run starts, have a loss of nan$"):
        run.trainer.train()
