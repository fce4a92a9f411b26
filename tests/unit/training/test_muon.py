"""Muon: which matrices it takes, what it makes of a gradient, the rates, and that a run with it resumes exactly."""

import signal
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig, TrainConfig
from pellucid.errors import ConfigError
from pellucid.model.families import DecoderOnly, Model, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.training.interrupts import TrainingInterrupted
from pellucid.training.muon import COEFFICIENTS, ITERATIONS, Muon, hidden_matrices, orthogonalise
from pellucid.training.optimizer import make_optimizer, set_learning_rate
from tests.tiny_model import tiny_config
from tests.unit.training.test_loop import stop_at
from tests.unit.training.toy_run import ToyRun

MUON = {"optimizer": "muon", "schedule": "linear", "learning_rate": 4e-3, "muon_learning_rate": 0.01}


def by_singular_values(matrix: Tensor) -> Tensor:
    """What the iterations come to, exactly: the polynomial of each singular value, in double precision."""
    a, b, c = COEFFICIENTS
    u, s, vh = torch.linalg.svd(matrix.double(), full_matrices=False)
    s = s / s.norm()
    for _ in range(ITERATIONS):
        s = a * s + b * s**3 + c * s**5
    return u @ s.diag() @ vh


def is_muons(model: Model) -> set[str]:
    held = {id(packed.weight) for packed in hidden_matrices(model)}
    return {name for name, p in model.named_parameters() if id(p) in held}


@pytest.mark.parametrize("shapes", [[(8, 8)], [(8, 24), (24, 8), (8, 8), (8, 24)], [(1, 5), (5, 1)]])
def test_a_gradient_becomes_nearly_orthogonal(shapes: list[tuple[int, int]]) -> None:
    generator = torch.Generator().manual_seed(1)
    matrices = [torch.randn(shape, generator=generator) for shape in shapes]
    for matrix, found in zip(matrices, orthogonalise(matrices), strict=True):
        # Each iteration makes a small singular value, and its rounding with it, at most 3.45 times as large.
        within = 3.45**ITERATIONS * 16 * torch.finfo(torch.float32).eps
        torch.testing.assert_close(found.double(), by_singular_values(matrix), rtol=0, atol=within)


def test_in_bfloat16_it_is_the_same_but_for_three_digits() -> None:
    matrix = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(1)))[0]
    (found,) = orthogonalise([matrix], torch.bfloat16)
    assert found.dtype == torch.float32
    # A singular value of 1/4 stays between 0.7 and 1.2 all the way: each product rounds it by at most 2^-8.
    torch.testing.assert_close(found.double(), by_singular_values(matrix), rtol=0, atol=3 * ITERATIONS * 2**-8)


def test_a_gradient_of_zeros_moves_nothing() -> None:
    (found,) = orthogonalise([torch.zeros(4, 6)])
    assert torch.equal(found, torch.zeros(4, 6))


def test_the_matrices_of_the_layers_are_muons_and_all_else_adams() -> None:
    model = Transformer(tiny_config(num_encoder_layers=1, num_decoder_layers=1, tie_embeddings="none"))
    assert is_muons(model) == {
        "encoder.layers.0.self_attn.qkv_proj.weight", "encoder.layers.0.self_attn.out_proj.weight",
        "encoder.layers.0.feed_forward.up_proj.weight", "encoder.layers.0.feed_forward.down_proj.weight",
        "decoder.layers.0.self_attn.qkv_proj.weight", "decoder.layers.0.self_attn.out_proj.weight",
        "decoder.layers.0.cross_attn.qkv_proj.weight", "decoder.layers.0.cross_attn.out_proj.weight",
        "decoder.layers.0.feed_forward.up_proj.weight", "decoder.layers.0.feed_forward.down_proj.weight",
    }  # fmt: skip


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_neither_embeddings_nor_heads_of_other_tasks_are_muons(family: str) -> None:
    shape = {"d_model": 8, "d_ff": 16, "num_heads": 2, "num_layers": 1}
    model: Model
    if family == "encoder":
        model = SequenceClassifier(ModelConfig.encoder(vocab_size=20, num_classes=3, positions="relative", **shape))
    else:
        model = DecoderOnly(ModelConfig.decoder(vocab_size=20, positions="learned", **shape))
    names = is_muons(model)
    assert len(names) == 4
    assert all(".layers.0." in name for name in names)


def test_packed_projections_are_matrices_of_their_own() -> None:
    """A step of q, k and v in one matrix is that of three: the size of one gradient says nothing of the others'."""
    model = Transformer(tiny_config(num_kv_heads=1))
    optimizer = make_optimizer(model, TrainConfig(**MUON))  # type: ignore[arg-type]
    set_learning_rate(optimizer, 4e-3)
    attention = model.encoder.layers[0].self_attn
    weight, widths = attention.qkv_proj.weight, attention.qkv_widths
    before = weight.detach().clone()
    generator = torch.Generator().manual_seed(2)
    parts = [torch.randn(rows, weight.size(1), generator=generator) for rows in widths]
    weight.grad = torch.cat([part * 10.0**-i for i, part in enumerate(parts)])
    optimizer.step()
    for moved, part in zip((before - weight.detach()).split(widths), parts, strict=True):
        rows, columns = part.shape
        expected = 0.01 * max(1.0, rows / columns) ** 0.5 * by_singular_values(part)
        torch.testing.assert_close(moved.double(), expected, rtol=0, atol=1e-5)


def test_a_step_is_that_of_pytorchs_muon() -> None:
    """But for rounding: PyTorch's always takes its products in bfloat16, and so here does ours."""
    torch.manual_seed(3)
    config = TrainConfig(**MUON, precision="bfloat16", weight_decay=0.1)  # type: ignore[arg-type]
    model = Transformer(tiny_config(num_encoder_layers=1, num_decoder_layers=1))
    names = [n for n in is_muons(model) if "qkv_proj" not in n]
    known = dict(model.named_parameters())
    theirs = {name: nn.Parameter(known[name].detach().clone()) for name in names}
    reference = torch.optim.Muon(theirs.values(), lr=0.01, momentum=0.95, weight_decay=0.1, adjust_lr_fn="original")
    optimizer = make_optimizer(model, config)
    set_learning_rate(optimizer, 4e-3)
    for _ in range(3):
        for name in names:
            gradient = torch.randn_like(theirs[name])
            known[name].grad, theirs[name].grad = gradient.clone(), gradient
        optimizer.step()
        reference.step()
    for name in names:
        # Three steps of 0.01 (twice that where there are four times as many rows), each entry of a direction, at most
        # 1.2, rounded five times by 2^-8.
        torch.testing.assert_close(known[name], theirs[name], rtol=0, atol=3 * 0.02 * 1.2 * ITERATIONS * 2**-8)


def test_all_else_takes_adams_step() -> None:
    torch.manual_seed(4)
    ours, plain = (Transformer(tiny_config()) for _ in range(2))
    plain.load_state_dict(ours.state_dict())
    for model, chosen in ((ours, "muon"), (plain, "adam")):
        optimizer = make_optimizer(model, TrainConfig(**MUON | {"optimizer": chosen}))  # type: ignore[arg-type]
        set_learning_rate(optimizer, 4e-3)
        for number, p in enumerate(model.parameters()):
            p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(number))
        optimizer.step()
    muons = is_muons(ours)
    for (name, p), q in zip(ours.named_parameters(), plain.parameters(), strict=True):
        assert torch.equal(p, q) == (name not in muons), name
        assert p.grad is not None, name


@pytest.mark.parametrize(("schedule", "highest"), [("linear", 4e-3), ("noam", (24 * 400) ** -0.5)])
def test_the_matrices_rate_follows_the_schedule(schedule: str, highest: float) -> None:
    rate = {"learning_rate": 4e-3} if schedule == "linear" else {}
    config = TrainConfig(optimizer="muon", schedule=schedule, warmup_steps=400, muon_learning_rate=0.02, **rate)  # type: ignore[arg-type]
    model = Transformer(tiny_config(d_model=24))
    optimizer = make_optimizer(model, config)
    set_learning_rate(optimizer, highest / 2)
    held = {id(packed.weight) for packed in hidden_matrices(model)}
    for group in optimizer.param_groups:
        expected = 0.01 if id(group["params"][0]) in held else highest / 2
        assert group["lr"] == pytest.approx(expected)


def test_frozen_matrices_stay() -> None:
    model = Transformer(tiny_config())
    frozen = model.encoder.layers[0].feed_forward.up_proj.weight
    frozen.requires_grad_(False)
    optimizer = make_optimizer(model, TrainConfig(**MUON))  # type: ignore[arg-type]
    assert isinstance(optimizer, Muon)
    assert all(p is not frozen for group in optimizer.param_groups for p in group["params"])


@pytest.mark.parametrize("reached", [0, 1])
def test_a_step_moves_what_has_a_gradient(reached: int) -> None:
    """A model that leaves layers out of a step, LayerDrop say, may leave all of them out."""
    model = Transformer(tiny_config())
    optimizer = make_optimizer(model, TrainConfig(**MUON))  # type: ignore[arg-type]
    set_learning_rate(optimizer, 4e-3)
    matrices = is_muons(model)
    moving = {*sorted(matrices)[:reached], *(name for name, _ in model.named_parameters() if name not in matrices)}
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        p.grad = torch.ones_like(p) if name in moving else None
    optimizer.step()
    assert {name for name, p in model.named_parameters() if not torch.equal(p, before[name])} == moving


@pytest.mark.slow
@pytest.mark.parametrize("stops", [[2], [4, 8]])
def test_a_resumed_run_is_the_unbroken_one(tmp_path: Path, stops: list[int]) -> None:
    unbroken = ToyRun(tmp_path / "unbroken", settings=MUON)
    unbroken.trainer.train()
    steps = dict.fromkeys(stops, signal.SIGTERM)
    for _ in stops:
        with pytest.raises(TrainingInterrupted):
            ToyRun(tmp_path / "broken", settings=MUON, at_step=stop_at(steps)).trainer.train()  # type: ignore[arg-type]
    last = ToyRun(tmp_path / "broken", settings=MUON)
    last.trainer.train()
    assert last.metrics == unbroken.metrics
    assert last.has_the_weights_of(unbroken)


@pytest.mark.parametrize(("setting", "value"), [("muon_learning_rate", 0.0), ("muon_momentum", 1.5)])
def test_settings_that_cannot_be_are_refused(setting: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"`{setting}` \({value}\)"):
        TrainConfig(**{setting: value})  # type: ignore[arg-type]
