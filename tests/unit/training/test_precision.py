"""bfloat16: which layers multiply in it and when, what the machine gains, and that such a run resumes exactly."""

import signal
from pathlib import Path

import pytest
import torch

from pellucid.model.fast.linear import Linear
from pellucid.training import precision
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.precision import autocast, bfloat16_gain, get_precision_warning, set_compute_dtype
from tests.tiny_model import tiny_model, words
from tests.unit.training.test_loop import one_step, stop_at
from tests.unit.training.toy_run import ToyRun

BFLOAT16 = {"precision": "bfloat16"}


def test_all_linear_layers_take_part_while_training() -> None:
    model = tiny_model()
    set_compute_dtype(model, "bfloat16")
    layers = [module for module in model.modules() if isinstance(module, Linear)]
    assert len(layers) == 2 * 4 + 2 * 6 + 1
    assert {layer.product_dtype for layer in layers} == {None}, "not in evaluation"
    assert {layer.product_dtype for layer in model.train().modules() if isinstance(layer, Linear)} == {torch.bfloat16}
    set_compute_dtype(model, "float32")
    assert {layer.product_dtype for layer in layers} == {None}


def test_translating_does_not_change() -> None:
    model = tiny_model()
    src, tgt = words(23, 3, 5), words(19, 3, 4)
    exact = model(src, tgt)
    set_compute_dtype(model, "bfloat16")
    assert torch.equal(model(src, tgt), exact)
    rounded = model.train()(src, tgt)
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.05)


def test_a_step_is_nearly_that_of_single_precision(tmp_path: Path) -> None:
    groups = [[0, 1, 2, 3, 4, 5, 6]]
    loss, norm, expected = one_step(ToyRun(tmp_path / "1", dropout=0.0), *groups)
    rounded, rounded_norm, found = one_step(ToyRun(tmp_path / "2", dropout=0.0, settings=BFLOAT16), *groups)
    assert rounded != loss
    assert (rounded, rounded_norm) == pytest.approx((loss, norm), rel=2e-2)
    assert {gradient.dtype for gradient in found.values()} == {torch.float32}
    for name, gradient in found.items():
        difference = float((gradient - expected[name]).norm())
        assert difference <= 0.1 * float(expected[name].norm()) + 1e-3, name


@pytest.mark.slow
def test_a_run_in_bfloat16_keeps_single_precision_and_resumes_exactly(tmp_path: Path) -> None:
    unbroken = ToyRun(tmp_path / "unbroken", settings=BFLOAT16)
    unbroken.trainer.train()
    assert {weights.dtype for weights in unbroken.published[-1].values()} == {torch.float32}
    broken = ToyRun(tmp_path / "broken", settings=BFLOAT16, at_step=stop_at({6: signal.SIGINT}))
    with pytest.raises(TrainingInterrupted):
        broken.trainer.train()
    last = ToyRun(tmp_path / "broken", settings=BFLOAT16)
    last.trainer.train()
    assert last.metrics == unbroken.metrics
    assert all(torch.equal(last.published[-1][name], weights) for name, weights in unbroken.published[-1].items())
    single = ToyRun(tmp_path / "single")
    single.trainer.train()
    assert not all(torch.equal(last.published[-1][name], weights) for name, weights in single.published[-1].items())


def test_a_cpu_needs_no_autocast() -> None:
    model = tiny_model().train()
    set_compute_dtype(model, "bfloat16")
    with autocast(model):
        assert not torch.is_autocast_enabled("cpu")


def test_the_gain_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bfloat16_gain(torch.device("cpu")) > 0
    monkeypatch.setattr(precision, "_milliseconds", {torch.float32: 1.0, torch.bfloat16: 4.0}.__getitem__)
    assert get_precision_warning(torch.device("cpu")) == (
        '`train.precision = "bfloat16"` is of little use on this machine: its matrix products run at 0.25 times the '
        "speed of float32"
    )
    monkeypatch.setattr(precision, "_milliseconds", {torch.float32: 4.0, torch.bfloat16: 1.0}.__getitem__)
    assert get_precision_warning(torch.device("cpu")) == ""
