"""The Annotated Transformer's model: pre-norm, its own layer norm, sinusoids from a saved table."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.parity.tutorials.masks import padded_and_causal, padding


class Norm(nn.Module):
    """Divides by the standard deviation of a sample, plus eps."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.b_2


class Heads(nn.Module):
    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads = heads
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            linear(x).view(len(x), x.size(1), self.heads, -1).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, key), strict=False)
        )
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(~mask, -1e9)
        return self.linears[3]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Inner(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(F.relu(self.w_1(x)))


class Around(nn.Module):
    """x + sublayer(norm(x))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = Norm(width)


class Layer(nn.Module):
    """`as_written`: the memory is attended to by `self_attn`, as the blog post's decoder layer does."""

    def __init__(self, width: int, heads: int, inner: int, attends_to_memory: bool, as_written: bool = False) -> None:
        super().__init__()
        self.as_written = as_written
        self.self_attn = Heads(heads, width)
        if attends_to_memory:
            self.src_attn = Heads(heads, width)
        self.feed_forward = Inner(width, inner)
        self.sublayer = nn.ModuleList(Around(width) for _ in range(3 if attends_to_memory else 2))

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None, src_mask: Tensor | None = None) -> Tensor:
        y = self.sublayer[0].norm(x)
        x = x + self.self_attn(y, y, mask)
        if memory is not None:
            attend = self.self_attn if self.as_written else self.src_attn
            x = x + attend(self.sublayer[1].norm(x), memory, src_mask)
        return x + self.feed_forward(self.sublayer[-1].norm(x))


class Stack(nn.Module):
    def __init__(self, layers: list[Layer], width: int) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), Norm(width)

    def forward(self, x: Tensor, *rest: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, *rest)
        return self.norm(x)


class Lookup(nn.Module):
    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.lut = nn.Embedding(words, width)

    def forward(self, ids: Tensor) -> Tensor:
        return self.lut(ids) * math.sqrt(self.lut.embedding_dim)


class Positions(nn.Module):
    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        rate = torch.exp(torch.arange(0, width, 2) * -(math.log(10000.0) / width))
        table, angle = torch.zeros(length, width), torch.arange(length)[:, None] * rate
        table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
        self.register_buffer("pe", table[None])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)]


class Projection(nn.Module):
    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, words)


class Annotated(nn.Module):
    """Logits, where the tutorial ends in their log-softmax."""

    def __init__(
        self,
        src_words: int,
        tgt_words: int,
        n: int,
        width: int,
        inner: int,
        heads: int,
        length: int = 5000,
        as_written: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = Stack([Layer(width, heads, inner, False) for _ in range(n)], width)
        self.decoder = Stack([Layer(width, heads, inner, True, as_written) for _ in range(n)], width)
        positions = Positions(width, length)
        self.src_embed = nn.Sequential(Lookup(width, src_words), copy.deepcopy(positions))
        self.tgt_embed = nn.Sequential(Lookup(width, tgt_words), copy.deepcopy(positions))
        self.generator = Projection(width, tgt_words)

    def forward(self, src: Tensor, tgt: Tensor, src_pad: int, tgt_pad: int) -> Tensor:
        src_mask = padding(src, src_pad)
        memory = self.encoder(self.src_embed(src), src_mask)
        states = self.decoder(self.tgt_embed(tgt), padded_and_causal(tgt, tgt_pad), memory, src_mask)
        return self.generator.proj(states)
