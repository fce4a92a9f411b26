"""Section 3.5: positions that are added to the embeddings: the paper's sinusoids, and a learned table.

Positions that act within attention are in attention_positions.py.
"""

import math

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError


class AbsolutePositions(nn.Module):
    """A vector for each position, which is added to the embedding of the token there."""

    def forward(self, start: int, end: int) -> Tensor:
        """Returns the vectors of the positions `start` to `end`, (end - start, D)."""
        raise NotImplementedError


class SinusoidalPositions(AbsolutePositions):
    """Section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same angle."""

    table: Tensor

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        outline = torch.get_default_device().type == "meta"  # no values exist there, and computing would import sympy
        table = torch.empty(max_positions, d_model) if outline else sinusoids(max_positions, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, start: int, end: int) -> Tensor:
        """Returns rows `start` to `end`, (end - start, D)."""
        return self.table[start:end]


class LearnedPositions(AbsolutePositions, nn.Embedding):  # constructed as the nn.Embedding that it is
    """A learned vector for each position."""

    def forward(self, start: int, end: int) -> Tensor:  # type: ignore[override]
        """Returns rows `start` to `end`, (end - start, D)."""
        return self.weight[start:end]


def sinusoids(length: int, d_model: int) -> Tensor:
    """Returns the table of section 3.5, (length, D), sine and cosine interleaved; computed in double precision.

    Raises ConfigError for an odd `d_model`, where a last sine would have no cosine, and for one below 2.
    """
    if d_model % 2 or d_model < 2:
        raise ConfigError(f"`d_model` ({d_model}) must be even for sinusoidal positions, and at least 2", "as 128 is")
    position = torch.arange(length, dtype=torch.float64)[:, None]  # (length, 1)
    # 1 / 10000^(2i / d_model), as the exponential of a logarithm.
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))  # (D / 2,)
    angle = position * rate  # (length, D / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()  # (length, D)


def make_added_positions(config: ModelConfig) -> AbsolutePositions | None:
    """Returns the positions that are added to the embeddings; None if positions act within attention."""
    if config.positions == "sinusoidal":
        return SinusoidalPositions(config.max_positions, config.d_model)
    return LearnedPositions(config.max_positions, config.d_model) if config.positions == "learned" else None
