"""PyTorch's translation tutorial: `torch.nn.Transformer` between embeddings, sinusoids and a projection."""

import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn


class Positions(nn.Module):
    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        rate = torch.exp(-torch.arange(0, width, 2) * math.log(10000) / width)
        angle, table = torch.arange(length)[:, None] * rate, torch.zeros(length, width)
        table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
        self.register_buffer("pos_embedding", table[:, None])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pos_embedding[: len(x)]


class Lookup(nn.Module):
    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)

    def forward(self, ids: Tensor) -> Tensor:
        return self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)


class TorchSeq2Seq(nn.Module):
    """Sequence first, as the tutorial has it; `options` are those of `torch.nn.Transformer`."""

    def __init__(self, src_words: int, tgt_words: int, n: int, width: int, inner: int, heads: int, **options: Any):
        super().__init__()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "enable_nested_tensor is True")  # of encoders that cannot use it
            self.transformer = nn.Transformer(width, heads, n, n, inner, **options)
        self.generator = nn.Linear(width, tgt_words)
        self.src_tok_emb, self.tgt_tok_emb = Lookup(src_words, width), Lookup(tgt_words, width)
        self.positional_encoding = Positions(width, 80)

    def forward(self, src: Tensor, tgt: Tensor, src_pad: int, tgt_pad: int) -> Tensor:
        """(B, S), (B, T) -> (B, T, V)."""
        src, tgt = src.t(), tgt.t()
        future = torch.ones(len(tgt), len(tgt)).triu(1).bool()
        padding = (src == src_pad).t()
        states = self.transformer(
            self.positional_encoding(self.src_tok_emb(src)), self.positional_encoding(self.tgt_tok_emb(tgt)),
            tgt_mask=future, src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return self.generator(states).transpose(0, 1)
