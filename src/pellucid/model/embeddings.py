"""Section 3.4: token embeddings, and the positions and segments that are added to them."""

import math

import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.errors import DataError
from pellucid.model.fast.dropout import Dropout
from pellucid.model.norm import make_norm
from pellucid.model.parts import OURS, Parts
from pellucid.model.positions import make_added


class Embeddings(nn.Module):
    """Token embeddings, scaled by sqrt(d_model), plus positions and segments, with dropout on the sum.

    `name` is what errors call the ids: the argument of the model that they come from.
    """

    def __init__(self, config: ModelConfig, vocab_size: int, parts: Parts = OURS, name: str = "ids") -> None:
        super().__init__()
        self.name = name
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        self.positions = make_added(config, parts)
        self.segments = nn.Embedding(config.num_segments, config.d_model) if config.num_segments else None
        self.norm = make_norm(config, parts) if config.embedding_norm else None
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.max_positions = config.max_positions
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor, position: int | None = None, segments: Tensor | None = None) -> Tensor:
        """Ids (B, L) -> (B, L, D); the ids stand at 0, 1, 2 ..., or all at one `position`.

        `segments` (B, L) says which kind of segment each is part of; None: all of the first.

        Raises DataError for ids outside of the vocabulary (a GPU has an error of its own for those), a sequence beyond
        `max_positions`, and segments of another shape, outside of the model's, or where it knows none.
        """
        start, end = (0, ids.size(1)) if position is None else (position, position + 1)
        if segments is not None and segments.shape != ids.shape:
            raise DataError(
                f"`segments` has shape {tuple(segments.shape)}, `{self.name}` {tuple(ids.shape)}: one a token"
            )
        if end > self.max_positions:
            place = "" if position is None else f" and stands at place {position}"
            raise DataError(
                f"`{self.name}` has shape {tuple(ids.shape)}{place}: a sequence of {end} tokens is longer than the "
                f"model's `max_positions` ({self.max_positions})",
                "cut the text, or train a model with a larger `model.max_positions`",
            )
        x = _looked_up(self.tokens, ids, self.name) * self.scale  # (B, L, D)
        if self.positions is not None:
            x = x + self.positions(start, end)
        if self.segments is not None:
            x = x + _looked_up(self.segments, torch.zeros_like(ids) if segments is None else segments, "segments")
        elif segments is not None:
            raise DataError("`segments` are given, but the model has no segment embeddings (`num_segments` is 0)")
        return self.dropout(x if self.norm is None else self.norm(x))  # (B, L, D)


def check_ids(ids: Tensor, name: str = "ids") -> None:
    """Raises DataError unless `ids` is a tensor of whole numbers, (B, L)."""
    if not isinstance(ids, Tensor):
        raise DataError(f"`{name}` is a {type(ids).__name__}; it must be a tensor (B, L)", "write torch.tensor([ids])")
    if ids.dtype not in (torch.int64, torch.int32):
        raise DataError(
            f"`{name}` has dtype {str(ids.dtype).removeprefix('torch.')}; ids are int64 or int32",
            f"write {name}.long()",
        )
    if ids.dim() != 2:
        raise DataError(
            f"`{name}` has shape {tuple(ids.shape)}; it must be (B, L), a row a sentence",
            f"write {name}[None] for a single sentence" if ids.dim() == 1 else "",
        )
    if not torch.compiler.is_compiling() and ids.size(1) == 0:
        raise DataError(
            f"`{name}` has shape {tuple(ids.shape)}: there is nothing to read", "give each row one id at least"
        )


def _looked_up(table: nn.Embedding, ids: Tensor, name: str) -> Tensor:
    """Returns the rows of `ids`, (B, L) -> (B, L, D).

    Ids outside of the table are looked for after the lookup has failed: a check before it would make a GPU wait.
    """
    try:
        return table(ids)  # (B, L, D)
    except IndexError:
        outside = sorted(set(ids[(ids < 0) | (ids >= table.num_embeddings)].tolist()))
        raise DataError(
            f"`{name}` has shape {tuple(ids.shape)} and holds {', '.join(map(str, outside[:5]))}"
            f"{', ...' if len(outside) > 5 else ''}; the model's are 0..{table.num_embeddings - 1}",
            "" if name == "segments" else "encode the text with the tokenizer that the model was trained with",
        ) from None
