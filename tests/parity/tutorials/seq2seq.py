"""The PyTorch tutorial on German to English: post-norm, learned positions, scaled embeddings."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.parity.tutorials.masks import padded_and_causal, padding


class Heads(nn.Module):
    """`one_projection`: one projection makes queries, keys and values.

    `without_masks` and `without_output` are the slips of the post's code: no mask is applied; the output goes through
    the one projection again, and `fc_o` is never used.
    """

    def __init__(self, width: int, heads: int, one_projection: bool) -> None:
        super().__init__()
        self.heads = heads
        self.without_masks = self.without_output = False
        self.names = ["fc_qkv"] * 3 if one_projection else ["fc_q", "fc_k", "fc_v"]
        for name in dict.fromkeys(self.names):
            self.add_module(name, nn.Linear(width, width))
        self.fc_o = nn.Linear(width, width)

    def forward(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            getattr(self, name)(x).view(len(x), -1, self.heads, x.size(-1) // self.heads).permute(0, 2, 1, 3)
            for name, x in zip(self.names, (query, key, key), strict=True)
        )
        scores = q @ k.permute(0, 1, 3, 2) / q.size(-1) ** 0.5
        if not self.without_masks:
            scores = scores.masked_fill(~mask, -1e10)
        joined = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).flatten(2)
        return self.fc_qkv(joined) if self.without_output else self.fc_o(joined)


class Inner(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x)))


class EncoderBlock(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, one_projection: bool) -> None:
        super().__init__()
        self.self_attention_layer = Heads(width, heads, one_projection)
        self.self_attention_norm = nn.LayerNorm(width)
        self.position_wise_ff_layer = Inner(width, inner)
        self.position_wise_ff_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.self_attention_norm(x + self.self_attention_layer(x, x, mask))
        return self.position_wise_ff_norm(x + self.position_wise_ff_layer(x))


class DecoderBlock(EncoderBlock):
    def __init__(self, width: int, heads: int, inner: int, one_projection: bool) -> None:
        super().__init__(width, heads, inner, one_projection)
        self.encoder_attention = Heads(width, heads, one_projection)
        self.encoder_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor, src_mask: Tensor) -> Tensor:  # type: ignore[override]
        x = self.self_attention_norm(x + self.self_attention_layer(x, x, mask))
        x = self.encoder_norm(x + self.encoder_attention(x, memory, src_mask))
        return self.position_wise_ff_norm(x + self.position_wise_ff_layer(x))


class Stack(nn.Module):
    def __init__(self, words: int, width: int, length: int, layers: list[nn.Module]) -> None:
        super().__init__()
        self.tok_embedding, self.pos_embedding = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(layers)

    def forward(self, ids: Tensor, *rest: Tensor) -> Tensor:
        x = self.tok_embedding(ids) * self.tok_embedding.embedding_dim**0.5
        x = x + self.pos_embedding(torch.arange(ids.size(1)))
        for layer in self.layers:
            x = layer(x, *rest)
        return x


class Seq2Seq(nn.Module):
    def __init__(
        self,
        src_words: int,
        tgt_words: int,
        n: int,
        width: int,
        inner: int,
        heads: int,
        one_projection: bool = False,
        lengths: tuple[int, int] = (100, 100),
    ) -> None:
        super().__init__()
        sizes = width, heads, inner, one_projection
        self.encoder = Stack(src_words, width, lengths[0], [EncoderBlock(*sizes) for _ in range(n)])
        self.decoder = Stack(tgt_words, width, lengths[1], [DecoderBlock(*sizes) for _ in range(n)])
        self.decoder.fc_out = nn.Linear(width, tgt_words)

    def forward(self, src: Tensor, tgt: Tensor, src_pad: int, tgt_pad: int) -> Tensor:
        src_mask = padding(src, src_pad)
        memory = self.encoder(src, src_mask)
        return self.decoder.fc_out(self.decoder(tgt, memory, padded_and_causal(tgt, tgt_pad), src_mask))
