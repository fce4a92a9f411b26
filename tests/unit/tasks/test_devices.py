"""Devices and precisions: what there is, and what is said of what there is not."""

import pytest
import torch

from pellucid.errors import ConfigError
from pellucid.tasks.devices import find_device, find_dtype


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with nothing but its CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    return monkeypatch


def test_auto_takes_the_fastest_there_is(machine: pytest.MonkeyPatch) -> None:
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    machine.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_device("auto") == torch.device("mps")
    machine.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == torch.device("cuda")


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "meta"])
def test_a_device_that_is_not_there(machine: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(ConfigError, match=f"device `{name}` is not on this machine") as caught:
        find_device(name)
    assert caught.value.hint == "this machine has: auto, cpu"


def test_the_second_of_one_gpu(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(torch.cuda, "is_available", lambda: True)
    machine.setattr(torch.cuda, "device_count", lambda: 1)
    assert find_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(ConfigError, match="device `cuda:1` is not on this machine") as caught:
        find_device("cuda:1")
    assert caught.value.hint == "this machine has: auto, cuda, cpu"


@pytest.mark.parametrize(
    ("name", "message"),
    [("gpu", "unknown device `gpu`"), ("cup", "unknown device `cup`; did you mean `cpu`"), ("", "unknown device ``")],
)
def test_an_unknown_device(machine: pytest.MonkeyPatch, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        find_device(name)
    assert caught.value.hint == "this machine has: auto, cpu"


def test_precisions() -> None:
    assert find_dtype(None) is None
    assert find_dtype("bfloat16") is find_dtype(torch.bfloat16) is torch.bfloat16
    assert find_dtype("float32") is torch.float32
    assert find_dtype(torch.float64) is torch.float64


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bf16", "unknown dtype `bf16`"),
        ("bfloat", "unknown dtype `bfloat`; did you mean `bfloat16`"),
        (torch.int64, r"unknown dtype `torch\.int64`"),
    ],
)
def test_an_unknown_precision(name: str | torch.dtype, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        find_dtype(name)
    assert caught.value.hint == "choose one of float32, bfloat16, float16"
