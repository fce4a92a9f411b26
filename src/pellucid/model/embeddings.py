"""Sections 3.4 and 3.5: token embeddings and positions."""

import math

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import ConfigError, DataError
from pellucid.model.dropout import Dropout


class Embeddings(nn.Module):
    """Token embeddings, scaled by sqrt(d_model), plus positions, with dropout on the sum."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        self.positions: LearnedPositions | SinusoidalPositions
        if config.positions == "learned":
            self.positions = LearnedPositions(config.max_positions, config.d_model)
        else:
            self.positions = SinusoidalPositions(config.max_positions, config.d_model)
        self.norm = nn.LayerNorm(config.d_model, config.norm_eps, bias=config.bias) if config.embedding_norm else None
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor, position: int | None = None) -> Tensor:
        """Ids (B, L) -> (B, L, D); the ids stand at 0, 1, 2 ..., or all at one `position`.

        Raises DataError for a sequence beyond `max_positions`.
        """
        start, end = (0, ids.size(1)) if position is None else (position, position + 1)
        x: Tensor = self.tokens(ids) * self.scale + self.positions(start, end)  # (B, L, D)
        x = self.dropout(x if self.norm is None else self.norm(x))
        return x


class LearnedPositions(nn.Embedding):
    """A learned vector for each position."""

    def forward(self, start: int, end: int) -> Tensor:  # type: ignore[override]
        """Rows `start` to `end`, (end - start, D)."""
        _check_range(end, self.num_embeddings)
        return self.weight[start:end]


class SinusoidalPositions(nn.Module):
    """Section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same angle."""

    table: Tensor

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(max_positions, d_model), persistent=False)

    def forward(self, start: int, end: int) -> Tensor:
        """Rows `start` to `end`, (end - start, D)."""
        _check_range(end, self.table.size(0))
        return self.table[start:end]


def sinusoids(length: int, d_model: int) -> Tensor:
    """The table of section 3.5, (length, D), sine and cosine interleaved; computed in double precision.

    Raises ConfigError for an odd `d_model`, where a last sine would have no cosine.
    """
    if d_model % 2:
        raise ConfigError(f"`d_model` ({d_model}) must be even for sinusoidal positions")
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
    angle = position * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()


def _check_range(end: int, max_positions: int) -> None:
    if end > max_positions:
        raise DataError(
            f"a sequence of {end} tokens is longer than the model's `max_positions` ({max_positions})",
            "cut the text, or train a model with a larger `model.max_positions`",
        )
