"""Section 3.4: token embeddings, with what is added to them."""

import math

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import DataError
from pellucid.kernels.dropout import Dropout
from pellucid.model.norm import norm_of
from pellucid.model.positions import LearnedPositions, SinusoidalPositions


class Embeddings(nn.Module):
    """Token embeddings, scaled by sqrt(d_model), plus positions and segments, with dropout on the sum."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        self.positions: LearnedPositions | SinusoidalPositions | None = None
        if config.positions == "learned":
            self.positions = LearnedPositions(config.max_positions, config.d_model)
        elif config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(config.max_positions, config.d_model)
        self.segments = nn.Embedding(config.num_segments, config.d_model) if config.num_segments else None
        self.norm = norm_of(config) if config.embedding_norm else None
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.max_positions = config.max_positions
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor, position: int | None = None, segments: Tensor | None = None) -> Tensor:
        """Ids (B, L) -> (B, L, D); the ids stand at 0, 1, 2 ..., or all at one `position`.

        `segments` (B, L) says which kind of segment each is part of; None: all of the first.

        Raises DataError for a sequence beyond `max_positions`, and for segments where the model knows none.
        """
        start, end = (0, ids.size(1)) if position is None else (position, position + 1)
        if end > self.max_positions:
            raise DataError(
                f"a sequence of {end} tokens is longer than the model's `max_positions` ({self.max_positions})",
                "cut the text, or train a model with a larger `model.max_positions`",
            )
        x: Tensor = self.tokens(ids) * self.scale  # (B, L, D)
        if self.positions is not None:
            x = x + self.positions(start, end)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(ids) if segments is None else segments)
        elif segments is not None:
            raise DataError("`segments` are given, but the model has no segment embeddings (`num_segments` is 0)")
        x = self.dropout(x if self.norm is None else self.norm(x))
        return x
