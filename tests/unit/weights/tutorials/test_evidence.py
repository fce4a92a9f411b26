"""What the numbers of a part tell of its training."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from pellucid.weights.tutorials.evidence import find_training


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(4)
        yield


def as_they_begin(matrix: Tensor) -> Tensor:
    return matrix


INITIALISATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "torch.nn.Linear": as_they_begin,
    "xavier_uniform_": nn.init.xavier_uniform_,
    "xavier_normal_": nn.init.xavier_normal_,
    "kaiming_uniform_": lambda matrix: nn.init.kaiming_uniform_(matrix, nonlinearity="relu"),
    "normal_(std=0.02)": lambda matrix: nn.init.normal_(matrix, std=0.02),
    "orthogonal_": nn.init.orthogonal_,
}


def parts(width: int, count: int, initialisation: str, moved: float = 0.0) -> dict[str, Tensor]:
    """Two linear modules in each of `count` layers, `out` as it began, all numbers of `qkv` moved by about `moved`."""
    tensors: dict[str, Tensor] = {}
    for layer in range(count):
        for name in ("out", "qkv"):
            linear = nn.Linear(width, width)
            INITIALISATIONS[initialisation](linear.weight)
            for leaf, tensor in linear.named_parameters():
                step = moved * torch.randn_like(tensor) if name == "qkv" else 0.0
                tensors[f"{layer}.{name}.{leaf}"] = tensor.detach() + step
    return tensors


def found(tensors: dict[str, Tensor]) -> str:
    out, qkv = ([name for name in tensors if f".{part}." in name] for part in ("out", "qkv"))
    return find_training("out", out, "qkv", qkv, tensors).verdict


@pytest.mark.parametrize("initialisation", INITIALISATIONS)
@pytest.mark.parametrize(("width", "count"), [(32, 6), (128, 9)])
def test_a_part_that_was_never_used(width: int, count: int, initialisation: str) -> None:
    """Beside one that was trained: for a short time a few numbers leave their range by chance, or none."""
    for moved in (0.1, 1.0):
        assert found(parts(width, count, initialisation, moved)) == "never trained", moved
    assert found(parts(width, count, initialisation, 0.01)) != "trained"


@pytest.mark.parametrize("initialisation", INITIALISATIONS)
@pytest.mark.parametrize(("width", "count"), [(16, 3), (64, 6), (128, 9)])
def test_a_part_that_was_trained(width: int, count: int, initialisation: str) -> None:
    """Beside one that was trained as well, and, as nobody does, beside one that was not."""
    for moved in (0.01, 0.1, 1.0):
        tensors = parts(width, count, initialisation, moved)
        names = {
            name: name.replace(".out.", ".x.").replace(".qkv.", ".out.").replace(".x.", ".qkv.") for name in tensors
        }
        swapped = {names[name]: tensor for name, tensor in tensors.items()}
        both = {name: tensor + moved * torch.randn_like(tensor) for name, tensor in swapped.items()}
        for state in (swapped, both):
            assert found(state) == "trained" or (found(state) == "unclear" and moved == 0.01), moved


@pytest.mark.parametrize("initialisation", INITIALISATIONS)
def test_a_model_that_was_not_trained_at_all_is_unclear(initialisation: str) -> None:
    assert found(parts(64, 6, initialisation)) == "unclear"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_of_half_the_precision(dtype: torch.dtype) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in parts(64, 6, "torch.nn.Linear", 0.02).items()}
    assert found(tensors) == "never trained"


def test_biases_that_a_deep_copy_made_equal() -> None:
    """The copies of one module begin alike; a single step makes them differ."""
    tensors = parts(16, 2, "xavier_uniform_", 1e-6)
    bias = tensors["0.out.bias"]
    copied = tensors | {name: bias for name in tensors if name.endswith("out.bias")}
    assert found(copied) == "never trained"
    assert found(copied | {"1.out.bias": bias + 1e-6}) != "never trained"
