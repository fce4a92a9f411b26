"""Parameters in files: what is saved comes back bit by bit, and what does not fit is refused."""

import json
import struct
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from pellucid.errors import CheckpointError
from pellucid.weights.tensors import (
    average_states,
    check_finite,
    check_stored,
    load_tensors,
    parameters,
    read_header,
    save_tensors,
    set_parameters,
)
from tests.unit.decoding.models import random_model


def bits(tensor: Tensor) -> bytes:
    return tensor.flatten().view(torch.uint8).numpy().tobytes()


def tensors() -> dict[str, Tensor]:
    """Values and layouts that could get lost."""
    return {
        "floats": torch.tensor([0.1, -0.0, torch.inf, torch.nan, 1e-45]),
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "scalar": torch.tensor(3.0),
        "empty": torch.zeros(0, 4),
        "narrow": torch.randn(3, 3).bfloat16(),
        "integers": torch.tensor([2**60]),
    }


def test_what_is_saved_comes_back_bit_by_bit(tmp_path: Path) -> None:
    saved = tensors()
    save_tensors(tmp_path / "x.safetensors", saved)
    loaded = load_tensors(tmp_path / "x.safetensors")
    assert loaded.keys() == saved.keys()
    for name, tensor in saved.items():
        assert (loaded[name].shape, loaded[name].dtype) == (tensor.shape, tensor.dtype)
        assert bits(loaded[name]) == bits(tensor)


def test_equal_weights_give_equal_bytes(tmp_path: Path) -> None:
    saved = tensors()
    save_tensors(tmp_path / "a.safetensors", saved)
    save_tensors(tmp_path / "b.safetensors", {name: saved[name].clone() for name in reversed(saved)})
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    save_tensors(tmp_path / "c.safetensors", saved | {"scalar": torch.tensor(3.0000002)})
    assert (tmp_path / "a.safetensors").read_bytes() != (tmp_path / "c.safetensors").read_bytes()


@pytest.mark.parametrize(("tie", "expected"), [("none", 3), ("decoder", 2), ("all", 1)])
def test_tied_parameters_are_stored_once(tmp_path: Path, tie: str, expected: int) -> None:
    model = random_model(1, tie_embeddings=tie)
    save_tensors(tmp_path / "x.safetensors", parameters(model))
    stored = load_tensors(tmp_path / "x.safetensors")
    of_the_vocabulary = [name for name, tensor in stored.items() if tensor.shape == (12, 16)]
    assert len(of_the_vocabulary) == expected
    other = random_model(2, tie_embeddings=tie)
    set_parameters(other, stored, "the file")
    src, tgt = torch.tensor([[3, 4, 2]]), torch.tensor([[1, 5]])
    assert torch.equal(other(src, tgt), model(src, tgt))
    assert (other.output_projection.weight is other.tgt_embedding.tokens.weight) == (tie != "none")


def file_of(header: object, body: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with that header, and a length of it that need not be true."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def entry(**fields: object) -> dict[str, object]:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | fields}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 an archive of pickles",
        file_of(b"{}", length=2**63),
        file_of(b"{}", length=2**40),
        file_of(b"{}", length=90_000_000),
        file_of(b"not JSON"),
        file_of([]),
        file_of(entry(), b"\0" * 4),
        file_of(entry(shape=[2**40]), b"\0" * 8),
        file_of(entry(shape=[2**40, 2**40]), b"\0" * 8),
        file_of(entry(shape=[-2]), b"\0" * 8),
        file_of(entry(data_offsets=[8, 16]), b"\0" * 8),
        file_of(entry(data_offsets=[0, 2**62]), b"\0" * 8),
        file_of(entry(dtype="PICKLE"), b"\0" * 8),
    ],
)
def test_a_damaged_or_hostile_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=rf"`.*x\.safetensors` \({len(data):,} bytes\) is damaged: ") as caught:
        load_tensors(path)
    assert caught.value.hint == "copy the file again, or train again"


@pytest.mark.parametrize("cut", [1, 100, 5000])
def test_a_truncated_file(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.safetensors"
    save_tensors(path, parameters(random_model(1)))
    data = path.read_bytes()[:-cut]
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=rf"\({len(data):,} bytes\) is damaged"):
        load_tensors(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no weights at `.*gone\.safetensors`") as caught:
        load_tensors(tmp_path / "gone.safetensors")
    assert "pellucid.json and model.safetensors" in caught.value.hint
    with pytest.raises(CheckpointError, match="no weights at"):
        load_tensors(tmp_path)


def small() -> nn.Linear:
    return nn.Linear(3, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bias": None}, r"misses 1 parameters of this model \(first: `bias`\) and has 0 unknown ones$"),
        ({"bias": None, "weight": None}, r"misses 2 parameters of this model \(first: `weight`\) and has 0"),
        ({"extra": torch.zeros(1)}, r"misses 0 parameters of this model and has 1 unknown ones \(first: `extra`\)"),
        ({"weight": torch.zeros(3, 2)}, r"`weight` has shape \(3, 2\), the model's is \(2, 3\)"),
        ({"bias": torch.zeros(())}, r"`bias` has shape \(\), the model's is \(2,\)"),
    ],
)
def test_parameters_that_do_not_fit_change_nothing(change: dict[str, Tensor | None], message: str) -> None:
    model, offered = small(), dict(parameters(small())) | change
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=f"^the file.*{message}") as caught:
        set_parameters(model, {name: tensor for name, tensor in offered.items() if tensor is not None}, "the file")
    assert caught.value.hint == "config.json and the weights must come from the same model"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_parameters_are_copied_not_shared() -> None:
    model, offered = small(), {name: tensor.detach().clone() for name, tensor in parameters(small()).items()}
    set_parameters(model, offered, "the file")
    offered["bias"] += 1
    assert not torch.equal(model.bias, offered["bias"])
    assert model.bias.requires_grad


def test_the_mean_of_states() -> None:
    states = [
        {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([5.0])},
        {"a": torch.tensor([3.0, 6.0]), "b": torch.tensor([5.0])},
    ]
    mean = average_states(states)
    assert mean["a"].tolist() == [2.0, 4.0]
    assert mean["b"].tolist() == [5.0]
    assert states[0]["a"].tolist() == [1.0, 2.0]


def test_the_mean_is_taken_in_double_precision() -> None:
    values = [torch.tensor([2.0**24]), torch.tensor([1.0]), torch.tensor([1.0])]
    assert average_states([{"a": value} for value in values])["a"].tolist() == [(2**24 + 2) / 3]
    same = torch.randn(100)
    assert torch.equal(average_states([{"a": same}] * 3)["a"], same)
    assert average_states([{"a": same.bfloat16()}] * 2)["a"].dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.int64, torch.complex64, torch.float8_e4m3fn])
def test_what_is_no_floating_point_is_not_cast(dtype: torch.dtype, tmp_path: Path) -> None:
    model = random_model(1)
    name = next(name for name in parameters(model) if name.endswith("self_attn_norm.weight"))
    stored = parameters(model) | {name: torch.zeros(16).to(dtype)}
    with pytest.raises(
        CheckpointError, match=rf"the file: `{name}` is stored as {str(dtype)[6:]}; weights are float16"
    ):
        set_parameters(model, stored, "the file")
    save_tensors(tmp_path / "x.safetensors", stored)
    with pytest.raises(CheckpointError, match=rf"`{name}` is stored as .*; weights are float16, bfloat16, float32"):
        check_stored(model, read_header(tmp_path / "x.safetensors"), "the file")


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_numbers_that_are_none_are_named(value: float, dtype: torch.dtype) -> None:
    model = random_model(1)
    stored = {name: tensor.detach().to(dtype) for name, tensor in parameters(model).items()}
    name = next(name for name in stored if name.endswith("out_proj.weight"))
    stored[name][3, 5] = value
    with pytest.raises(CheckpointError, match=rf"1 of the 256 values of `{name}` are not finite"):
        set_parameters(model, stored, "the file")


def test_opposite_infinities_do_not_cancel_and_large_numbers_pass() -> None:
    with pytest.raises(CheckpointError, match="2 of the 3 values of `x` are not finite"):
        check_finite("x", torch.tensor([torch.inf, -torch.inf, 1.0]), "the file")
    largest = torch.finfo(torch.float32).max
    check_finite("x", torch.tensor([largest, largest]), "the file")  # whose sum is not


def test_a_header_is_what_the_file_holds(tmp_path: Path) -> None:
    saved = tensors()
    save_tensors(tmp_path / "x.safetensors", saved)
    header = read_header(tmp_path / "x.safetensors")
    assert {name: stored.shape for name, stored in header.items()} == {n: tuple(t.shape) for n, t in saved.items()}
    assert {header[name].dtype for name in ("floats", "narrow", "integers")} == {"F32", "BF16", "I64"}
