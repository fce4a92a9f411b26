"""The code analysis with einsum: projections shared by the heads, scores divided by the root of the whole width."""

import torch
from torch import Tensor, nn

from tests.parity.tutorials.masks import causal, padding


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        head_width = width // heads
        self.values = nn.Linear(head_width, head_width, bias=False)
        self.keys = nn.Linear(head_width, head_width, bias=False)
        self.queries = nn.Linear(head_width, head_width, bias=False)
        self.fc_out = nn.Linear(width, width)

    def forward(self, keys: Tensor, query: Tensor, mask: Tensor) -> Tensor:
        cut, whole = (x.reshape(len(x), x.size(1), self.heads, -1) for x in (query, keys))
        q, k, v = self.queries(cut), self.keys(whole), self.values(whole)
        energy = torch.einsum("nqhd,nkhd->nhqk", q, k).masked_fill(~mask, -1e20)
        weights = torch.softmax(energy / self.width**0.5, dim=3)
        return self.fc_out(torch.einsum("nhql,nlhd->nqhd", weights, v).reshape(query.shape))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))

    def forward(self, keys: Tensor, query: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(self.attention(keys, query, mask) + query)
        return self.norm2(self.feed_forward(x) + x)


class DecoderBlock(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.norm = nn.LayerNorm(width)
        self.transformer_block = Block(width, heads, inner)

    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        query = self.norm(self.attention(x, x, tgt_mask) + x)
        return self.transformer_block(memory, query, src_mask)


class Stack(nn.Module):
    def __init__(self, words: int, width: int, length: int, layers: list[nn.Module]) -> None:
        super().__init__()
        self.word_embedding, self.position_embedding = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(layers)

    def embedded(self, ids: Tensor) -> Tensor:
        return self.word_embedding(ids) + self.position_embedding(torch.arange(ids.size(1)))


class Einsum(nn.Module):
    def __init__(
        self, src_words: int, tgt_words: int, n: int, width: int, inner: int, heads: int, length: int = 100
    ) -> None:
        super().__init__()
        self.encoder = Stack(src_words, width, length, [Block(width, heads, inner) for _ in range(n)])
        self.decoder = Stack(tgt_words, width, length, [DecoderBlock(width, heads, inner) for _ in range(n)])
        self.decoder.fc_out = nn.Linear(width, tgt_words)

    def forward(self, src: Tensor, tgt: Tensor, src_pad: int, tgt_pad: int) -> Tensor:
        src_mask, memory = padding(src, src_pad), self.encoder.embedded(src)
        for layer in self.encoder.layers:
            memory = layer(memory, memory, src_mask)
        x = self.decoder.embedded(tgt)
        for layer in self.decoder.layers:
            x = layer(x, memory, src_mask, causal(tgt.size(1)))
        return self.decoder.fc_out(x)
