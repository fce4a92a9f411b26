"""A loss of one's own, a function or a module with parameters: what is minimised, reported, saved and refused."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pellucid.config import ModelConfig, TrainConfig
from pellucid.data.batching import NO_TARGET, Batch
from pellucid.errors import CheckpointError, ConfigError
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.model.fast.dropout import Dropout
from pellucid.model.transformer import Transformer
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.loss import CrossEntropy, Losses, RDrop, make_loss
from pellucid.weights.tensors import load_tensors
from tests.tiny_model import padded, tiny_model, words
from tests.unit.training.test_loop import batches, one_step, stop_at
from tests.unit.training.toy_run import ToyRun


def focal(model: Transformer, batch: Batch) -> Losses:
    """Lin et al. 2017, with the exponent 2."""
    words = batch.tgt_out != batch.tgt_pad_id
    nats = F.cross_entropy(model(batch.src, batch.tgt_in)[words], batch.tgt_out[words], reduction="none")
    return Losses(((1 - (-nats).exp()) ** 2 * nats).sum(), nats.sum().detach())


def plain(model: Transformer, batch: Batch) -> Losses:
    """What the settings' loss is without label smoothing."""
    words = batch.tgt_out != batch.tgt_pad_id
    loss = F.cross_entropy(model(batch.src, batch.tgt_in)[words], batch.tgt_out[words], reduction="sum")
    return Losses(loss, loss)


class Tempered(nn.Module):
    """Learns a temperature, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(2.0))
        self.frozen = nn.Parameter(torch.tensor(3.0), requires_grad=False)
        self.calls: torch.Tensor
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, model: Transformer, batch: Batch) -> Losses:
        self.calls += 1
        words = batch.tgt_out != batch.tgt_pad_id
        logits = model(batch.src, batch.tgt_in)[words] / self.temperature
        loss = F.cross_entropy(logits, batch.tgt_out[words], reduction="sum")
        return Losses(loss * (1 + 1e-3 * self.calls), loss.detach())


def test_the_settings_choose_a_loss() -> None:
    assert make_loss(TrainConfig(label_smoothing=0.2)) == CrossEntropy(0.2)
    assert make_loss(TrainConfig(label_smoothing=0.2, r_drop=5.0)) == RDrop(5.0, 0.2)
    with pytest.raises(ConfigError, match=r"^`alpha` \(0\) must be above 0$"):
        RDrop(0)


def classifier() -> tuple[SequenceClassifier, Batch]:
    config = ModelConfig.encoder(vocab_size=23, num_layers=1, d_model=12, num_heads=3, num_classes=4, dropout=0.0)
    none, classes = torch.zeros(5, 0, dtype=torch.long), torch.tensor([0, 3, 1, 1, 2])
    return SequenceClassifier(config), Batch(words(23, 5, 6), none, classes[:, None], np.arange(5), 5, 0, None)


def language_model() -> tuple[DecoderOnly, Batch]:
    config = ModelConfig.decoder(vocab_size=23, num_layers=1, d_model=12, num_heads=3, dropout=0.0)
    ids, none = words(23, 3, 7), torch.zeros(3, 0, dtype=torch.long)
    targets = ids[:, 1:].clone()
    targets[1, 4:] = NO_TARGET
    return DecoderOnly(config), Batch(none, ids[:, :-1], targets, np.arange(3), 16, None, NO_TARGET)


def translator() -> tuple[Transformer, Batch]:
    tgt = padded(words(19, 3, 6), [6, 4, 2])
    return tiny_model(), Batch(words(23, 3, 5), tgt[:, :-1], tgt[:, 1:], np.arange(3), 9)


@pytest.mark.parametrize("make", [classifier, language_model, translator])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_both_losses_of_the_settings_are_for_all_tasks(make: Callable[[], tuple[Any, Batch]], smoothing: float) -> None:
    """Sums over real targets; without dropout both passes of R-Drop agree, so that it is the cross-entropy."""
    model, batch = make()
    with torch.no_grad():
        if isinstance(model, SequenceClassifier):
            logits = model(batch.src)[:, None]  # (B, 1, C)
        else:
            logits = model(batch.tgt_in) if isinstance(model, DecoderOnly) else model(batch.src, batch.tgt_in)
    real = batch.tgt_out != (NO_TARGET if batch.tgt_pad_id is None else batch.tgt_pad_id)
    assert int(real.sum()) == batch.num_tokens
    expected = F.cross_entropy(logits[real], batch.tgt_out[real], label_smoothing=smoothing, reduction="sum").item()
    for loss in (CrossEntropy(smoothing), RDrop(5.0, smoothing)):
        found = loss(model.train(), batch)
        assert (found.minimised.item(), found.reported.item()) == pytest.approx((expected, expected), rel=1e-5)
        (found.minimised / batch.num_tokens).backward()


@pytest.mark.parametrize("make", [classifier, language_model, translator])
def test_with_dropout_r_drop_adds_what_the_passes_differ_by(make: Callable[[], tuple[Any, Batch]]) -> None:
    model, batch = make()
    for module in model.modules():
        if isinstance(module, Dropout):
            module.p = 0.3
    weak, strong = [], []
    for alpha, found in ((1.0, weak), (3.0, strong)):
        torch.manual_seed(1)
        found += [value.item() for value in RDrop(alpha)(model.train(), batch)]
    assert weak[1] == strong[1], "the cross-entropy alone is reported"
    assert strong[0] - strong[1] == pytest.approx(3 * (weak[0] - weak[1]), rel=1e-3)
    assert weak[0] > weak[1]


def test_a_loss_of_ones_own_trains_as_the_same_of_the_settings_does(tmp_path: Path) -> None:
    settings = {"label_smoothing": 0.0}
    ours = one_step(ToyRun(tmp_path / "1", dropout=0.0, settings=settings), [0, 1, 2], [3])
    theirs = one_step(ToyRun(tmp_path / "2", dropout=0.0, settings=settings, parts={"loss": plain}), [0, 1, 2], [3])
    assert theirs[:2] == pytest.approx(ours[:2], rel=1e-5)
    torch.testing.assert_close(theirs[2], ours[2], rtol=1e-4, atol=1e-6)


def test_one_part_is_minimised_and_the_other_reported(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, dropout=0.0, parts={"loss": focal})
    (batch,) = batches(run, [0, 1, 2])
    minimised, reported = focal(run.model.train(), batch)
    gradients = torch.autograd.grad(minimised / batch.num_tokens, list(run.model.parameters()))
    loss, _, found = one_step(run, [0, 1, 2])
    assert loss == pytest.approx(reported.item(), rel=1e-6)
    assert reported > minimised
    for ours, theirs in zip(found.values(), gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: focal, Tempered])
def test_a_resumed_run_is_the_unbroken_one(tmp_path: Path, make: Callable[[], Any]) -> None:
    unbroken = ToyRun(tmp_path / "unbroken", parts={"loss": make()})
    unbroken.trainer.train()
    for step in (2, 6, 8):
        with pytest.raises(TrainingInterrupted):
            ToyRun(tmp_path / "broken", parts={"loss": make()}, at_step=stop_at({step: signal.SIGINT})).trainer.train()
    last = ToyRun(tmp_path / "broken", parts={"loss": make()})
    last.trainer.train()
    assert last.metrics == unbroken.metrics
    assert last.has_the_weights_of(unbroken)


def test_a_module_is_trained_and_saved_with_its_buffers(tmp_path: Path) -> None:
    loss = Tempered()
    run = ToyRun(tmp_path, parts={"loss": loss})
    run.trainer.train()
    assert loss.temperature != 2.0
    assert loss.frozen == 3.0
    assert loss.calls == 12 * 2, "two batches a step"
    saved = load_tensors(tmp_path / "checkpoints" / "step-00000012" / "loss.safetensors")
    assert saved == {"temperature": loss.temperature, "calls": loss.calls}
    assert set(run.published[-1]) == set(run.weights), "the model is the model alone"


def test_its_gradient_counts_when_gradients_are_clipped(tmp_path: Path) -> None:
    run = ToyRun(tmp_path, parts={"loss": Tempered()}, settings={"grad_clip": 0.01})
    one_step(run, [0, 1, 2])
    norms = [float((p.grad**2).sum()) for p in run.trainer.step.gradients.parameters.values() if p.grad is not None]
    assert len(norms) == len(run.weights) + 1
    assert sum(norms) ** 0.5 == pytest.approx(0.01, rel=1e-3)


@pytest.mark.slow
def test_a_run_is_not_gone_on_with_another_loss(tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        ToyRun(tmp_path, parts={"loss": focal}, at_step=stop_at({6: signal.SIGINT})).trainer.train()
    with pytest.raises(CheckpointError) as error:
        ToyRun(tmp_path).trainer.train()
    assert str(error.value) == f"the loss of the run in `{tmp_path}` was `focal`, and now is that of the settings"
    assert error.value.hint == "set `run.loss` to the one of its start, or start over with `fresh=True`"
    with pytest.raises(CheckpointError, match=r"was `focal`, and now is `plain`$"):
        ToyRun(tmp_path, parts={"loss": plain}).trainer.train()
    assert ToyRun(tmp_path, parts={"loss": focal}).trainer.train().step == 12


def test_a_module_that_has_become_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        ToyRun(tmp_path, parts={"loss": Tempered()}, at_step=stop_at({6: signal.SIGINT})).trainer.train()
    other = Tempered()
    other.temperature = nn.Parameter(torch.ones(2))
    with pytest.raises(CheckpointError, match=r"holds .*`temperature` \(\).* of the loss, which now has .*\(2,\)"):
        ToyRun(tmp_path, parts={"loss": other}).trainer.train()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda loss: loss, r"^the loss `.*` returned Tensor, not Losses$"),
        (lambda loss: (loss, loss), r"^the loss `.*` returned tuple, not Losses$"),
        (
            lambda loss: Losses(loss.expand(3, 2), loss),
            r"^`minimised` of the loss `.*` is a tensor of shape \(3, 2\), not a tensor of no dimension$",
        ),
        (lambda loss: Losses(loss, loss.item()), r"^`reported` of the loss `.*` is float, not a tensor of no dim"),
        (lambda loss: Losses(loss.detach(), loss), r"^`minimised` of the loss `.*` has no gradient$"),
    ],
)
def test_what_a_loss_cannot_return(tmp_path: Path, returned: Callable[[Any], Any], message: str) -> None:
    run = ToyRun(tmp_path, parts={"loss": lambda model, batch: returned(plain(model, batch).minimised)})
    with pytest.raises(ConfigError, match=message) as error:
        run.trainer.train()
    assert error.value.hint
