"""Arithmetic that moves into weights: the same result, from a norm and a table of ours."""

import math

import pytest
import torch
import torch.nn.functional as F

from pellucid.model.positions import sinusoids
from pellucid.weights.tutorials.folding import (
    eps_in_the_root,
    is_sinusoidal_table,
    one_block_a_head,
    scale_before_norm,
    sinusoids_of_each_column,
    unbiased_deviation,
)


@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("width", [2, 8, 512])
def test_a_norm_by_a_samples_deviation(width: int, size: float) -> None:
    x = torch.randn(50, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * size
    deviation = x.std(-1, keepdim=True)
    theirs = (x - x.mean(-1, keepdim=True)) / (deviation + 1e-6)
    weight = torch.full((width,), 1 / unbiased_deviation(width), dtype=torch.float64)
    ours = F.layer_norm(x, (width,), weight, eps=eps_in_the_root(1e-6, width))
    assert ((ours - theirs).abs() <= 1.01e-6 / deviation * theirs.abs() + 1e-9).all()


def test_a_block_for_each_head() -> None:
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.equal(one_block_a_head(matrix, 3), torch.block_diag(matrix, matrix, matrix))


def test_sinusoids_of_each_column() -> None:
    table = sinusoids_of_each_column(7, 5)
    for position in range(7):
        for column in range(5):
            wave = math.cos if column % 2 else math.sin
            assert float(table[position, column]) == pytest.approx(wave(position / 10000 ** (column / 5)))


def test_the_papers_sinusoids_are_known() -> None:
    assert is_sinusoidal_table(sinusoids(300, 8).double())
    single = torch.arange(5000)[:, None] * torch.exp(torch.arange(0, 512, 2) * -(math.log(10000.0) / 512))
    assert is_sinusoidal_table(torch.stack([single.sin(), single.cos()], dim=-1).flatten(1).double())
    assert not is_sinusoidal_table(sinusoids_of_each_column(300, 8))
    assert not is_sinusoidal_table(sinusoids(300, 8).double() + 1e-4)
    assert not is_sinusoidal_table(torch.zeros(3, 5, dtype=torch.float64))


@pytest.mark.parametrize("size", [1e-6, 1e-4, 0.02, 1.0, 500.0])
def test_a_norm_that_had_a_smaller_eps(size: float) -> None:
    tokens, positions = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * size
    factor = scale_before_norm(tokens, positions, 1e-12, 1e-5)
    assert math.log2(factor).is_integer() or size < 1e-3
    sums = tokens[:, None] + positions
    ours, theirs = F.layer_norm(sums * factor, (16,), eps=1e-5), F.layer_norm(sums, (16,), eps=1e-12)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)
    assert (factor == 1) == (size == 500)
