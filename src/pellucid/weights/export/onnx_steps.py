"""The two halves of a model as functions of tensors alone, which is what an ONNX graph is."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from pellucid.model.cache import DecoderCache, LayerCache
from pellucid.model.masks import padding_mask
from pellucid.model.transformer import DecoderOnly, EncoderOnly, Transformer


class GivenLayerCache(LayerCache):
    """A layer's past as it is handed in; it grows by making new tensors, not in place."""

    def __init__(self, past: tuple[Tensor, Tensor], memory_heads: tuple[Tensor, Tensor] | None) -> None:
        super().__init__()
        self.past = past
        self.memory_heads = memory_heads

    def extend_self(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.past = torch.cat([self.past[0], k], dim=2), torch.cat([self.past[1], v], dim=2)  # (B, H, P + 1, K)
        return self.past

    def keep_memory(self, memory: Tensor, project: Callable[[Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        assert self.memory_heads is not None
        return self.memory_heads


class GivenCache(DecoderCache):
    """All layers' pasts as they are handed in."""

    def __init__(self, layers: list[GivenLayerCache]) -> None:
        self.layers = list(layers)
        self.length = layers[0].past[0].size(2)

    @property
    def positions(self) -> Tensor:
        """The position of each key, the new one's included: (P + 1,)."""
        return torch.arange(self.length + 1)


class SourceReader(nn.Module):
    """The encoder, with what the decoder asks of it at every step computed once.

    (B, S) ids -> which of them are words, bool (B, 1, 1, S); then for each decoder layer the keys and the values of the
    memory, (B, H, S, K) each.
    """

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, src: Tensor) -> tuple[Tensor, ...]:
        mask = padding_mask(src, self.model.config.pad_id)
        if mask is None:
            mask = torch.ones_like(src, dtype=torch.bool)[:, None, None, :]  # (B, 1, 1, S)
        memory = self.model.encode(src, mask)
        heads: list[Tensor] = []
        for layer in self.model.decoder.layers:
            heads += layer.cross_attn.memory_heads(memory)  # type: ignore[operator, union-attr]
        return mask, *heads


class TokenWriter(nn.Module):
    """One step of the decoder.

    (B, 1) tokens, and each layer's keys and values so far, (B, H, P, K) each; for an encoder-decoder before them what
    SourceReader gives. Returns logits (B, V) and each layer's keys and values, (B, H, P + 1, K) each.
    """

    def __init__(self, model: Transformer | DecoderOnly) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        count = 2 * self.model.config.num_decoder_layers
        past = _pairs(given[-count:])
        mask, heads = (given[0], _pairs(given[1 : 1 + count])) if len(given) > count else (None, [None] * len(past))
        cache = GivenCache([GivenLayerCache(*both) for both in zip(past, heads, strict=True)])
        x = self.model.tgt_embedding(tokens, position=cache.length)  # (B, 1, D)
        # The memory itself is not asked for: its keys and values are given.
        x = self.model.decoder(x, None if mask is None else x, None, mask, cache)  # (B, 1, D)
        logits = self.model.output_projection(x)[:, 0]  # (B, V)
        return logits, *(tensor for layer in cache.layers for tensor in layer.past)  # type: ignore[attr-defined]


class StateReader(nn.Module):
    """An encoder alone, or a classifier: ids (B, S), and segments where the model knows some, -> its output."""

    def __init__(self, model: EncoderOnly) -> None:
        super().__init__()
        self.model = model

    def forward(self, src: Tensor, segments: Tensor | None = None) -> Tensor:
        states: Tensor = self.model(src, segments)
        return states


def _pairs(tensors: tuple[Tensor, ...]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(tensors[::2], tensors[1::2], strict=True))
