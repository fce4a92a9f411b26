"""Section 3.4: token embeddings, and the positions that are added to them; segments are BERT's.

The rest of section 3.4, the projection to logits and the matrix that it shares with the embeddings, is in
transformer.py.
"""

import math

import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.model.checks import check_embedded
from pellucid.model.fast.dropout import Dropout
from pellucid.model.positions import AbsolutePositions


class Embeddings(nn.Module):
    """Token embeddings times sqrt(d_model), plus positions and segments; then a norm, if there is one, and dropout.

    `name` is the name of the ids in errors: the model's argument.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: AbsolutePositions | None,
        segments: nn.Embedding | None = None,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
        *,
        scaled: bool = True,
        max_positions: int,
        name: str = "ids",
    ) -> None:
        super().__init__()
        self.name = name
        self.tokens = tokens
        self.positions = positions
        self.segments = segments
        self.norm = norm
        self.scale: float = math.sqrt(tokens.embedding_dim) if scaled else 1.0
        self.max_positions = max_positions
        self.dropout: Dropout = Dropout(dropout)

    def forward(self, ids: Tensor, position: int | None = None, segments: Tensor | None = None) -> Tensor:
        """Ids (B, L) -> (B, L, D), at positions 0, 1, 2 ..., or in a step of decoding all at one `position`.

        `segments` (B, L) has the segment type of each token; if None, all are of the first type.

        Raises DataError for ids outside of the vocabulary (a GPU raises its own error), a sequence beyond
        `max_positions`, and segments of another shape, outside of the model's table, or for a model without one.
        """
        start, end = (0, ids.size(1)) if position is None else (position, position + 1)
        check_embedded(ids, self.name, segments, position, self.max_positions, self.segments)
        x = _look_up(self.tokens, ids, self.name) * self.scale  # (B, L, D)
        if self.positions is not None:
            x = x + self.positions(start, end)  # (B, L, D)
        if self.segments is not None:
            x = x + _look_up(self.segments, torch.zeros_like(ids) if segments is None else segments, "segments")
        return self.dropout(x if self.norm is None else self.norm(x))  # (B, L, D)


def _look_up(table: nn.Embedding, ids: Tensor, name: str) -> Tensor:
    """Returns the rows of `ids`, (B, L) -> (B, L, D).

    Ids outside of the table are searched for only after the lookup has failed: a check before it would synchronize a
    GPU.
    """
    try:
        return table(ids)  # (B, L, D)
    except IndexError:
        outside = sorted(set(ids[(ids < 0) | (ids >= table.num_embeddings)].tolist()))
        raise DataError(
            f"`{name}` has shape {tuple(ids.shape)} and holds {', '.join(map(str, outside[:5]))}"
            f"{', ...' if len(outside) > 5 else ''}; the model's ids are 0..{table.num_embeddings - 1}",
            "" if name == "segments" else "encode the text with the tokenizer that the model was trained with",
        ) from None
