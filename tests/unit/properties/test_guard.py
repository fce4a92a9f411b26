"""The check of custom parts before a training: it names the first place of a fault, and changes nothing."""

import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pellucid
from pellucid.config import DecodeConfig
from pellucid.properties.guard import find_fault
from pellucid.weights.tensors import load_tensors
from tests.own_parts import ALL
from tests.toy_task import reversed_letters, small_recipe, write_pairs
from tests.unit.model_checks import faulty
from tests.unit.model_checks.faulty import SHAPE

Parts = pellucid.Parts
LEAKING, SHOWING = Parts(attention=faulty.Leaking.from_config), Parts(attention=faulty.ShowingPads.from_config)


def check(parts: pellucid.Parts, **fields: Any) -> str:
    model = pellucid.Transformer(pellucid.ModelConfig(**SHAPE | fields), parts)
    return find_fault(model, parts, DecodeConfig())


def test_a_leak_is_named_with_its_place() -> None:
    said = check(LEAKING)
    assert "(attention=tests.unit.model_checks.faulty.Leaking.from_config)" in said
    assert "later positions change earlier logits" in said
    assert "it begins in decoder.layers.0.self_attn" in said
    assert "pass the causal mask" in said


def test_a_leak_in_the_second_layer_begins_there() -> None:
    made = list[int]()

    def second_leaks(config: pellucid.ModelConfig) -> pellucid.DecoderLayer:
        made.append(1)
        layer = pellucid.DecoderLayer.from_config(config)
        if len(made) == 2:
            layer.self_attn = faulty.Leaking.from_config(config)
        return layer

    said = check(Parts(decoder_layer=second_leaks), num_decoder_layers=2)
    assert "it begins in decoder.layers.1.self_attn" in said


def test_ignored_pads_are_named_with_their_place() -> None:
    said = check(SHOWING)
    assert "3 pads after a text change its outputs" in said
    assert "it begins in decoder.layers.0.cross_attn" in said


def test_a_decoder_and_an_encoder_alone_are_checked() -> None:
    sizes = {"num_layers": 1, "d_model": 16, "d_ff": 16, "num_heads": 2}
    leaking = pellucid.DecoderOnly(pellucid.ModelConfig.decoder(vocab_size=20, **sizes), LEAKING)
    assert "decoder.layers.0.self_attn" in find_fault(leaking, LEAKING, DecodeConfig())

    class Unmasked(faulty.Attending):
        def masked(self, mask: Tensor | None, memory: Tensor | None) -> Tensor | None:
            return None

    parts = Parts(attention=Unmasked.from_config)
    showing = pellucid.EncoderOnly(pellucid.ModelConfig.encoder(vocab_size=20, **sizes), parts)
    assert "encoder.layers.0.self_attn" in find_fault(showing, parts, DecodeConfig())


@pytest.mark.parametrize("name", ALL)
def test_right_parts_give_no_warning(name: str) -> None:
    assert check(ALL[name]) == ""


def test_a_part_that_drops_in_evaluation_is_named() -> None:
    assert "two passes in evaluation mode differ" in check(Parts(feed_forward=faulty.DroppingAlways))


def test_a_part_that_fails_on_a_short_text_is_named_as_unchecked() -> None:
    class Long(nn.Module):
        def __init__(self, config: pellucid.ModelConfig) -> None:
            super().__init__()

        def forward(self, x: Tensor) -> Tensor:
            if x.size(1) % 8:
                raise ValueError("the length must be a multiple of 8\nhere is why")
            return x

    said = check(Parts(feed_forward=Long))
    assert said.endswith("were not checked: ValueError on a short text: the length must be a multiple of 8")


def test_neither_the_model_nor_any_random_numbers_change() -> None:
    class Noisy(nn.Module):
        calls: Tensor

        def __init__(self, config: pellucid.ModelConfig) -> None:
            super().__init__()
            self.register_buffer("calls", torch.tensor(0))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x + torch.rand(1) + random.random() + float(np.random.rand())

    parts = Parts(feed_forward=Noisy)
    model = pellucid.Transformer(pellucid.ModelConfig(**SHAPE), parts)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    states = torch.get_rng_state(), random.getstate(), str(np.random.get_state())
    assert "two passes in evaluation mode differ" in find_fault(model, parts, DecodeConfig())
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (random.getstate(), str(np.random.get_state()))
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return write_pairs(tmp_path_factory.mktemp("texts"), reversed_letters(30))


def train(texts: tuple[str, str], out: Path, parts: pellucid.Parts | None, *settings: str) -> None:
    recipe = small_recipe(*texts, "train.decode_and_evaluate=0", *settings)
    pellucid.train(recipe, out, parts=parts, device="cpu", quiet=True)


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("kind", ["leak", pytest.param("pads", marks=pytest.mark.slow)])
def test_a_run_with_faulty_parts_warns_once_before_its_first_step(
    kind: str, texts: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts, said = {"leak": (LEAKING, "later positions"), "pads": (SHOWING, "pads after a text")}[kind]

    def start() -> pellucid.Run:
        recipe = small_recipe(*texts, "train.decode_and_evaluate=0")
        return pellucid.Run(recipe, tmp_path / "run", parts=parts, device="cpu", quiet=True)

    seen, run = list[int](), start()

    @run.on_step
    def break_off(event: pellucid.StepEvent) -> None:
        seen.append(len(warnings_in(caplog)))
        if event.step == 3:  # after the checkpoint of step 2
            raise RuntimeError("broken off")

    with pytest.raises(RuntimeError, match="broken off"):
        run.train()
    assert seen == [1, 1, 1]
    assert said in warnings_in(caplog)[0]
    caplog.clear()
    start().train()
    assert warnings_in(caplog) == []


@pytest.mark.slow
def test_right_parts_train_to_the_bytes_of_none_without_a_warning(
    texts: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(texts, tmp_path / "bare", None)
    train(texts, tmp_path / "same", Parts(attention=pellucid.MultiHeadAttention.from_config))
    bare, same = (load_tensors(tmp_path / name / "model.safetensors") for name in ("bare", "same"))
    assert bare.keys() == same.keys()
    assert all(torch.equal(tensor, same[name]) for name, tensor in bare.items())
    assert warnings_in(caplog) == []


@pytest.mark.slow
def test_a_run_without_parts_is_not_checked(
    texts: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = list[object]()

    def note(*given: object) -> str:
        called.append(given)
        return ""

    monkeypatch.setattr("pellucid.run.session.find_fault", note)
    train(texts, tmp_path / "none", None, "train.steps=2")
    train(texts, tmp_path / "empty", Parts(), "train.steps=2")
    assert called == []
    train(texts, tmp_path / "own", ALL["squared"], "train.steps=2")
    assert len(called) == 1
