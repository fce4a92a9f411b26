"""Dropout: its rate, its scale, its gradient, and that elements fall independently of each other."""

import math

import pytest
import torch
from torch import Tensor

from pellucid.errors import ConfigError
from pellucid.model.fast.dropout import Dropout, dropout

SIGMAS = 5
"""A sound mean of independent draws lies further off once in a million runs, and the seed is fixed."""


def kept(p: float, *shape: int) -> Tensor:
    """1 where an element is kept, 0 where it falls."""
    return (dropout(torch.ones(shape), p) != 0).double()


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_the_rate(p: float) -> None:
    keep = kept(p, 400, 1000)
    assert abs(keep.mean().item() - (1 - p)) < SIGMAS * math.sqrt(p * (1 - p) / keep.numel()) + 2**-17


@pytest.mark.parametrize("p", [2**-16, 1 - 2**-16])
def test_the_finest_rate(p: float) -> None:
    """One level more or less of 65536 would halve or double what is rare here."""
    stay = int(dropout(torch.ones(2**22), p).count_nonzero())
    rare = stay if p > 0.5 else 2**22 - stay
    assert abs(rare - 64) < SIGMAS * math.sqrt(64)


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_what_stays_is_scaled_so_that_the_mean_does_too(p: float) -> None:
    x = torch.randn(100, 100)
    output = dropout(x, p)
    stays = output != 0
    torch.testing.assert_close(output[stays], x[stays] / (1 - p), rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_the_scale_undoes_the_rate_exactly(p: float) -> None:
    """The rate is a multiple of 1/65536, and the scale is that rate's, not that of `p`."""
    threshold = round(p * 65536)
    output = dropout(torch.ones(1000), p)
    assert set(output.tolist()) == {0.0, torch.tensor(65536 / (65536 - threshold)).item()}


@pytest.mark.parametrize("p", [0.1, 0.6])
def test_the_gradient_is_the_same_mask_and_scale(p: float) -> None:
    x = torch.randn(37, 11, requires_grad=True)
    output = dropout(x, p)
    direction = torch.randn_like(output)
    output.backward(direction)
    factor = (output / x).detach()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, direction * factor, rtol=1e-5, atol=1e-6)
    assert (x.grad == 0).any()


def test_the_gradient_is_that_of_finite_differences() -> None:
    def seeded(x: Tensor) -> Tensor:
        torch.manual_seed(7)
        return dropout(x, 0.4)

    assert torch.autograd.gradcheck(seeded, torch.randn(3, 5, dtype=torch.float64, requires_grad=True))


def test_nothing_happens_at_zero() -> None:
    x = torch.randn(5, 3)
    assert dropout(x, 0.0) is x
    assert torch.equal(Dropout(0.0)(x), x)


def test_no_random_number_is_drawn_at_zero_or_out_of_training() -> None:
    before = torch.get_rng_state()
    dropout(torch.ones(9), 0.0)
    Dropout(0.5).eval()(torch.ones(9))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_module_drops_in_training_alone() -> None:
    module = Dropout(0.5)
    x = torch.ones(1000)
    assert (module(x) == 0).any()
    assert module.eval()(x) is x
    assert repr(module) == "Dropout(p=0.5)"


def test_the_seed_decides() -> None:
    x = torch.randn(50, 50)
    draws = []
    for seed in (4, 4, 5):
        torch.manual_seed(seed)
        draws.append(dropout(x, 0.3))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], dropout(x, 0.3))


@pytest.mark.parametrize("shape", [(), (1,), (2,), (3,), (5,), (7, 9), (3, 1, 5), (2, 0), (0,)], ids=str)
def test_any_shape(shape: tuple[int, ...]) -> None:
    x = torch.ones(shape, requires_grad=True)
    output = dropout(x, 0.5)
    output.sum().backward()
    assert output.shape == shape
    assert set(output.flatten().tolist()) <= {0.0, 2.0}
    assert x.grad is not None
    assert torch.equal(x.grad, output.detach())


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 1001])
def test_the_last_elements_of_odd_sizes_fall_as_often_as_others(size: int) -> None:
    last = torch.stack([kept(0.5, size)[-1] for _ in range(2000)])
    assert abs(last.mean().item() - 0.5) < SIGMAS * 0.5 / math.sqrt(2000)


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_neighbours_fall_independently(p: float, distance: int) -> None:
    """Four elements share a draw, and the next four have one of their own."""
    keep = kept(p, 400_000)
    for phase in range(4):
        one, other = keep[phase:-distance:4], keep[phase + distance :: 4]
        size = min(one.numel(), other.numel())
        correlation = torch.corrcoef(torch.stack([one[:size], other[:size]]))[0, 1].item()
        assert abs(correlation) < SIGMAS / math.sqrt(size)


def test_each_place_of_a_draw_has_the_same_rate() -> None:
    places = kept(0.2, 100_000, 4).mean(dim=0)
    assert ((places - 0.8).abs() < SIGMAS * math.sqrt(0.2 * 0.8 / 100_000) + 2**-17).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_the_type_stays(dtype: torch.dtype) -> None:
    output = dropout(torch.ones(1000, dtype=dtype), 0.5)
    assert output.dtype == dtype
    assert set(output.tolist()) == {0.0, 2.0}


def test_a_transposed_tensor() -> None:
    x = torch.randn(30, 20).t()
    output = dropout(x, 0.5)
    stays = output != 0
    assert torch.equal(output[stays], 2 * x[stays])
    assert 0.3 < stays.double().mean() < 0.7


@pytest.mark.parametrize("p", [1e-7, 1 - 1e-7])
def test_the_smallest_and_the_largest_probability(p: float) -> None:
    output = dropout(torch.ones(10_000), p)
    assert torch.isfinite(output).all()
    assert abs((output != 0).double().mean().item() - (1 - p)) < 0.01


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, math.nan])
def test_no_probability(p: float) -> None:
    with pytest.raises(ConfigError, match=f"a dropout of {p} is not a probability: it must be at least 0 and below 1"):
        Dropout(p)
    with pytest.raises(ConfigError, match=f"a dropout of {p} is not a probability"):
        dropout(torch.ones(3), p)
