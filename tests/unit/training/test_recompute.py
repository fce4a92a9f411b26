"""`train.gradient_checkpointing`: the same gradients, of less that is kept for the backward pass."""

from pathlib import Path

import pytest
import torch

from tests.unit.training.test_loop import batches
from tests.unit.training.toy_run import ToyRun


def kept_and_gradients(folder: Path, *, recompute: bool) -> tuple[int, dict[str, torch.Tensor]]:
    """The numbers that a forward pass keeps, and the gradients of a step with dropout."""
    run, kept = ToyRun(folder, settings={"gradient_checkpointing": recompute, "accumulate": 1}), 0

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run.trainer.step.gradients.backward(batches(run, [0, 1, 2, 3, 4, 5]), step=1, per=1)
    return kept, {name: p.grad.clone() for name, p in run.model.named_parameters() if p.grad is not None}


def test_gradients_are_equal_and_less_is_kept(tmp_path: Path) -> None:
    all_of_it, expected = kept_and_gradients(tmp_path / "kept", recompute=False)
    inputs, found = kept_and_gradients(tmp_path / "recomputed", recompute=True)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected), "dropout draws the same, too"
    assert inputs < all_of_it / 2


@pytest.mark.slow
def test_a_whole_run_is_the_same(tmp_path: Path) -> None:
    plain, run = ToyRun(tmp_path / "plain"), ToyRun(tmp_path / "other", settings={"gradient_checkpointing": True})
    plain.trainer.train()
    run.trainer.train()
    assert run.has_the_weights_of(plain)
