"""Token embeddings and positions: the formulas of sections 3.4 and 3.5."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.errors import ConfigError, DataError
from pellucid.model.build import Builder
from pellucid.model.embeddings import Embeddings
from pellucid.model.positions import LearnedPositions, SinusoidalPositions, sinusoids
from tests.rounding import unit
from tests.tiny_model import tiny_config, words

VOCAB_SIZE, D = 23, 12


def embeddings(**fields: Any) -> Embeddings:
    return Builder(tiny_config(**fields)).embeddings(VOCAB_SIZE).eval()


@pytest.mark.parametrize("d_model", [2, 12, 512])
def test_sinusoids_by_their_formula(d_model: int) -> None:
    table = sinusoids(60, d_model)
    assert table.shape == (60, d_model)
    assert table.dtype == torch.float32
    for position in (0, 1, 7, 59):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=unit())
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=unit())


def test_far_positions_are_as_exact_as_near_ones() -> None:
    """Angles beyond 4,000 have no digits to spare in single precision."""
    row = sinusoids(5000, 512)[4999]
    for i in range(256):
        angle = 4999 / 10000 ** (2 * i / 512)
        assert row[2 * i].item() == pytest.approx(math.sin(angle), abs=unit())
        assert row[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=unit())


@pytest.mark.parametrize("offset", [1, 5, 100])
def test_a_shift_is_a_rotation(offset: int) -> None:
    """Section 3.5: PE(pos + k) is a linear function of PE(pos), the same for each position."""
    table = sinusoids(300, 64).double().unflatten(1, (32, 2))
    angle = offset / 10000 ** (torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    cosine, sine = angle.cos(), angle.sin()
    rotations = torch.stack([torch.stack([cosine, sine], -1), torch.stack([-sine, cosine], -1)], -2)
    rotated = torch.einsum("irc,pic->pir", rotations, table[:-offset])
    # Of a rotation's two products, each with a rounded sine and cosine, and of what it is compared with.
    torch.testing.assert_close(rotated, table[offset:], rtol=0, atol=3 * unit())


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"`d_model` \(5\) must be even for sinusoidal positions"):
        sinusoids(3, 5)


@pytest.mark.parametrize("scale_embeddings", [True, False])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_the_sum(positions: str, scale_embeddings: bool) -> None:
    module = embeddings(positions=positions, scale_embeddings=scale_embeddings)
    ids = words(VOCAB_SIZE, 2, 5)
    table = module.positions.weight if isinstance(module.positions, LearnedPositions) else sinusoids(5, D)
    expected = module.tokens.weight[ids] * (math.sqrt(D) if scale_embeddings else 1) + table[:5]
    torch.testing.assert_close(module(ids), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fields", [{}, {"positions": "learned"}, {"embedding_norm": True}], ids=str)
def test_one_position_at_a_time(fields: dict[str, Any]) -> None:
    module = embeddings(**fields)
    ids = words(VOCAB_SIZE, 2, 5)
    steps = [module(ids[:, t : t + 1], position=t) for t in range(5)]
    assert torch.equal(torch.cat(steps, dim=1), module(ids))


def test_several_hypotheses_at_one_position() -> None:
    module = embeddings()
    ids = words(VOCAB_SIZE, 2, 5)
    table = sinusoids(10, D)
    assert torch.equal(module(ids, position=9), module.tokens(ids) * module.scale + table[9])


def test_the_norm_falls_on_the_sum() -> None:
    module = embeddings(embedding_norm=True)
    output = module(words(VOCAB_SIZE, 2, 5))
    torch.testing.assert_close(output.mean(-1), torch.zeros(2, 5), rtol=0, atol=1e-5)
    torch.testing.assert_close(output.var(-1, unbiased=False), torch.ones(2, 5), rtol=0, atol=1e-3)


def test_dropout_falls_on_the_sum() -> None:
    module = embeddings(dropout=0.5).train()
    output = module(words(VOCAB_SIZE, 20, 50))
    assert 0.4 < (output == 0).double().mean() < 0.6


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_sequence_beyond_the_last_position(positions: str) -> None:
    module = embeddings(positions=positions, max_positions=6)
    message = r"a sequence of 7 tokens is longer than the model's `max_positions` \(6\)"
    assert module(words(VOCAB_SIZE, 1, 6)).shape == (1, 6, D)
    with pytest.raises(DataError, match=message) as caught:
        module(words(VOCAB_SIZE, 1, 7))
    assert "shorten the text" in caught.value.hint
    with pytest.raises(DataError, match=message):
        module(words(VOCAB_SIZE, 1, 1), position=6)


@pytest.mark.parametrize(
    "positions", [SinusoidalPositions(10, D), LearnedPositions(10, D)], ids=["sinusoidal", "learned"]
)
def test_rows_of_positions(positions: SinusoidalPositions | LearnedPositions) -> None:
    table: Tensor = positions(0, 10)
    assert torch.equal(positions(3, 7), table[3:7])
    assert len({tuple(row) for row in table.tolist()}) == 10


def test_sinusoids_are_no_weights() -> None:
    assert list(SinusoidalPositions(10, D).state_dict()) == []
    assert list(SinusoidalPositions(10, D).parameters()) == []
