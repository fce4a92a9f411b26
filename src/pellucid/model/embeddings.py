"""Section 3.4: token embeddings, and the positions that are added to them; segments are BERT's.

The rest of section 3.4, the projection to logits and the matrix that it shares with these, stands in transformer.py.
"""

import math

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.checks import check_embedded, look_up
from pellucid.model.fast.dropout import Dropout
from pellucid.model.norm import make_norm
from pellucid.model.parts import OURS, Parts
from pellucid.model.positions import AddedPositions, make_added_positions


class Embeddings(nn.Module):
    """Token embeddings times sqrt(d_model), plus positions and segments; then a norm where there is one; dropout.

    `name` is what errors call the ids: the argument of the model that they come from.
    """

    def __init__(self, config: ModelConfig, vocab_size: int, parts: Parts = OURS, name: str = "ids") -> None:
        super().__init__()
        self.name = name
        self.tokens: nn.Embedding = nn.Embedding(vocab_size, config.d_model)
        self.positions: AddedPositions | None = make_added_positions(config, parts)
        self.segments: nn.Embedding | None = (
            nn.Embedding(config.num_segments, config.d_model) if config.num_segments else None
        )
        self.norm: nn.Module | None = make_norm(config, parts) if config.embedding_norm else None
        self.scale: float = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.max_positions: int = config.max_positions
        self.dropout: Dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor, position: int | None = None, segments: Tensor | None = None) -> Tensor:
        """Ids (B, L) -> (B, L, D); they stand at 0, 1, 2 ..., or in a step of decoding all at one `position`.

        `segments` (B, L) says which kind of segment each is part of; None: all of the first.

        Raises DataError for ids outside of the vocabulary (a GPU has an error of its own for those), a sequence beyond
        `max_positions`, and segments of another shape, outside of the model's, or where it knows none.
        """
        start, end = (0, ids.size(1)) if position is None else (position, position + 1)
        check_embedded(ids, self.name, segments, position, self.max_positions, self.segments)
        x = look_up(self.tokens, ids, self.name) * self.scale  # (B, L, D)
        if self.positions is not None:
            x = x + self.positions(start, end)  # (B, L, D)
        if self.segments is not None:
            x = x + look_up(self.segments, torch.zeros_like(ids) if segments is None else segments, "segments")
        return self.dropout(x if self.norm is None else self.norm(x))  # (B, L, D)
