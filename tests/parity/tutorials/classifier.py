"""The classifier of "NLP with Transformers", chapter 3: an encoder with a module for each head."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.parity.tutorials.masks import padding


class Head(nn.Module):
    def __init__(self, width: int, head_width: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, head_width) for _ in range(3))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
        return torch.bmm(scores.masked_fill(~mask, -math.inf).softmax(-1), v)


class Heads(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Head(width, width // heads) for _ in range(heads))
        self.output_linear = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.output_linear(torch.cat([head(x, mask) for head in self.heads], dim=-1))


class Inner(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_2(F.gelu(self.linear_1(x)))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.layer_norm_1, self.layer_norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed_forward = Heads(width, heads), Inner(width, inner)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.layer_norm_1(x), mask)
        return x + self.feed_forward(self.layer_norm_2(x))


class Embedded(nn.Module):
    def __init__(self, words: int, width: int, length: int) -> None:
        super().__init__()
        self.token_embeddings, self.position_embeddings = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layer_norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.size(1))[None]
        return self.layer_norm(self.token_embeddings(ids) + self.position_embeddings(positions))


class Stack(nn.Module):
    def __init__(self, words: int, width: int, length: int, n: int, heads: int, inner: int) -> None:
        super().__init__()
        self.embeddings = Embedded(words, width, length)
        self.layers = nn.ModuleList(Layer(width, heads, inner) for _ in range(n))

    def forward(self, ids: Tensor, pad: int) -> Tensor:
        x, mask = self.embeddings(ids), padding(ids, pad)[:, 0]
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Classifier(nn.Module):
    """Logits of the classes, from the first token's state."""

    def __init__(self, words: int, classes: int, n: int, width: int, inner: int, heads: int, length: int = 512) -> None:
        super().__init__()
        self.encoder = Stack(words, width, length, n, heads, inner)
        self.classifier = nn.Linear(width, classes)

    def forward(self, ids: Tensor, pad: int) -> Tensor:
        return self.classifier(self.encoder(ids, pad)[:, 0])
