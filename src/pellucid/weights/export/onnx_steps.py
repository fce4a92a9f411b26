"""The parts of a model as functions of tensors alone, as an ONNX graph requires."""

from collections.abc import Callable
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model.attention import MultiHeadAttention
from pellucid.model.cache import DecoderCache, LayerCache
from pellucid.model.embeddings import Embeddings
from pellucid.model.families import DecoderOnly, EncoderOnly, SequenceClassifier
from pellucid.model.fast.linear import Linear
from pellucid.model.positions import LearnedPositions, SinusoidalPositions
from pellucid.model.transformer import Transformer


class GivenLayerCache(LayerCache):
    """A layer's past as it is passed in; it grows by making new tensors, not in place."""

    def __init__(self, past: tuple[Tensor, Tensor], memory_heads: tuple[Tensor, Tensor] | None) -> None:
        super().__init__()
        self.past: tuple[Tensor, Tensor] = past
        self.memory_heads = memory_heads

    def extend_self(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.past = torch.cat([self.past[0], k], dim=2), torch.cat([self.past[1], v], dim=2)  # (B, H, P + T, K)
        return self.past

    def get_memory_heads(
        self, memory: Tensor, project: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        assert self.memory_heads is not None
        return self.memory_heads


class GivenCache(DecoderCache):
    """All layers' pasts as they are passed in, and the positions of their keys and of the new tokens."""

    def __init__(self, layers: list[GivenLayerCache], positions: Tensor) -> None:
        self.layers: list[LayerCache] = list(layers)
        self.key_positions = positions

    @property
    def positions(self) -> Tensor:
        """Returns the position of each key, the new ones' included: (P + T,)."""
        return self.key_positions


class PartedProjection(nn.Module):
    """The packed projections of a cross-attention as two matrices: of the queries, and of keys and values.

    In a graph, a slice of a matrix would be cut out at every step and could not be rounded to 8 bits.
    """

    def __init__(self, packed: Linear, q_width: int) -> None:
        super().__init__()
        self.parts: nn.ModuleList = nn.ModuleList()
        for rows in (slice(q_width), slice(q_width, None)):
            weight = packed.weight[rows]
            part = nn.Linear(weight.size(1), weight.size(0), bias=packed.bias is not None)
            part.weight = nn.Parameter(weight.detach().clone())
            if packed.bias is not None:
                part.bias = nn.Parameter(packed.bias[rows].detach().clone())
            self.parts.append(part)

    def some_rows(self, x: Tensor, rows: slice) -> Tensor:
        """Computes as Linear does, for the rows of either part."""
        found: Tensor = self.parts[0 if rows.start is None else 1](x)
        return found


def split_cross_attention(model: Transformer) -> Transformer:
    """Returns a copy of `model` for graphs: it computes the same, and cannot be trained or saved."""
    copied = deepcopy(model)
    for layer in copied.decoder.layers:
        attention = layer.cross_attn
        assert isinstance(attention, MultiHeadAttention)
        attention.qkv_proj = PartedProjection(attention.qkv_proj, attention.q_width)  # type: ignore[assignment]
    return copied


class SourceReader(nn.Module):
    """Computes the encoder: ids (B, S) and which of them are not padding, int64 (B, S), -> the memory (B, S, D)."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model.encode(input_ids, attention_mask.bool()[:, None, None, :])


class MemoryReader(nn.Module):
    """Computes a decoder's inputs from the memory (B, S, D): all layers' keys and values, (B, H, S, K)."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, memory: Tensor) -> tuple[Tensor, ...]:
        heads: list[Tensor] = []
        for layer in self.model.decoder.layers:
            heads += layer.cross_attn.keys_and_values(memory)  # type: ignore[operator, union-attr]
        return tuple(heads)


class TokenWriter(nn.Module):
    """Computes some steps of the decoder at once: a whole prompt, or one step.

    (B, T) tokens, and each layer's keys and values so far, (B, H, P, K) each; before those, for an encoder-decoder the
    mask of the source, 1 = not padding, int64 (B, S), and the outputs of MemoryReader; for a decoder alone the mask of
    past and tokens, int64 (B, P + T), with padding on the left. Returns logits (B, T, V) and each layer's keys and
    values, (B, H, P + T, K) each.
    """

    def __init__(self, model: Transformer | DecoderOnly) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        count = 2 * self.model.config.num_decoder_layers
        past, heads = _pairs(given[-count:]), _pairs(given[:-count])
        before, length = past[0][0].size(2), input_ids.size(1)
        places = torch.arange(before + length)
        mask = (places[None, :] <= places[before:, None])[None, None]  # (1, 1, T, P + T)
        new = places[None, before:]  # (1, T)
        memory_mask = None
        if heads:
            memory_mask = attention_mask.bool()[:, None, None, :]  # (B, 1, 1, S)
        else:
            mask = mask & attention_mask.bool()[:, None, None, :]  # (B, 1, T, P + T)
            # After padding on the left a text begins at position 0, too.
            new = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)[:, before:]  # (B, T)
        layers = [GivenLayerCache(each, heads[n] if heads else None) for n, each in enumerate(past)]
        x = _embed(self.model.tgt_embedding, input_ids, new)  # (B, T, D)
        # The memory itself is not used: its keys and values are inputs.
        x = self.model.decoder(x, x if heads else None, mask, memory_mask, GivenCache(layers, places))  # (B, T, D)
        logits = self.model.output_projection(x)  # (B, T, V)
        return logits, *(tensor for layer in layers for tensor in layer.past)


class StateReader(nn.Module):
    """Computes an encoder alone, or a classifier: ids (B, S), their mask (1 = not padding), and segments if the model
    has some, -> states (B, S, D), or logits (B, C).
    """

    def __init__(self, model: EncoderOnly) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        mask = attention_mask.bool()[:, None, None, :]  # (B, 1, 1, S)
        states = EncoderOnly.forward(self.model, input_ids, token_type_ids, mask)  # (B, S, D)
        if not isinstance(self.model, SequenceClassifier):
            return states
        logits: Tensor = self.model.head(states, mask)  # (B, C)
        return logits


def _embed(embedding: Embeddings, ids: Tensor, positions: Tensor) -> Tensor:
    """Returns the embeddings of ids (B, T) at positions (B, T) or (1, T): (B, T, D). Like Embeddings, but each row of a
    batch has its own positions.
    """
    x: Tensor = embedding.tokens(ids) * embedding.scale  # (B, T, D)
    known = embedding.positions
    if isinstance(known, LearnedPositions):
        x = x + F.embedding(positions, known.weight)
    elif isinstance(known, SinusoidalPositions):
        x = x + F.embedding(positions, known.table)
    if embedding.segments is not None:
        x = x + embedding.segments(torch.zeros_like(ids))
    return x if embedding.norm is None else embedding.norm(x)


def _pairs(tensors: tuple[Tensor, ...]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(tensors[::2], tensors[1::2], strict=True))
