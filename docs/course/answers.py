"""Answers to the exercises of the course; `pellucid check` calls each right.

A lesson asks for one or two of them, in a file mine.py of your own. There are other right answers.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

# Lesson 1.


def attention(q, k, v, mask=None):
    """Equation 1 for q (B, H, L, K), k and v (B, H, M, K); `mask` is True where a query may look."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, L, M)
    if mask is not None:
        scores = scores.masked_fill(~mask.bool(), float("-inf"))
    return scores.softmax(dim=-1) @ v


# Lesson 2.


def causal_mask(length):
    """(1, 1, T, T): a position may look at itself and at earlier ones."""
    return torch.ones(length, length).tril().bool()[None, None]


def padding_mask(ids, pad_id):
    """(B, 1, 1, S): no query may look at padding."""
    return (ids != pad_id)[:, None, None, :]


# Lesson 3.


class MultiHeadAttention(nn.Module):
    """Several heads; without `memory` it is self-attention."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory=None, mask=None):
        """(B, L, D), (B, M, D) -> (B, L, D)."""
        source = x if memory is None else memory
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(source)), self.split(self.v_proj(source))
        return self.out_proj(attention(q, k, v, mask).transpose(1, 2).flatten(2))

    def split(self, x):
        """(B, L, D) -> (B, H, L, K)."""
        return x.view(x.size(0), x.size(1), self.num_heads, -1).transpose(1, 2)


# Lesson 4.


def positional_encoding(length, d_model):
    """(L, D): sine and cosine side by side."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    angle = position / 10000 ** (2 * torch.arange(d_model // 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


# Lesson 5.


class LayerNorm(nn.Module):
    """The norm of each token's numbers."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma, self.beta, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x):
        """(B, L, D) -> (B, L, D)."""
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
        return self.gamma * (x - mean) / (variance + self.eps).sqrt() + self.beta


class FeedForward(nn.Module):
    """Equation 2."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up_proj, self.down_proj = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        """(B, L, D) -> (B, L, D)."""
        return self.down_proj(self.up_proj(x).relu())


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each after a norm and inside a residual sum."""

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention, self.feed_forward = MultiHeadAttention(d_model, num_heads), FeedForward(d_model, d_ff)
        self.attention_norm, self.feed_forward_norm = LayerNorm(d_model), LayerNorm(d_model)

    def forward(self, x, mask):
        """(B, S, D) -> (B, S, D)."""
        x = x + self.attention(self.attention_norm(x), mask=mask)
        return x + self.feed_forward(self.feed_forward_norm(x))


class DecoderLayer(nn.Module):
    """The same with cross-attention to the memory in between."""

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention, self.cross_attention = (MultiHeadAttention(d_model, num_heads) for _ in range(2))
        self.feed_forward = FeedForward(d_model, d_ff)
        self.attention_norm, self.cross_norm, self.feed_forward_norm = (LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, src_mask, tgt_mask):
        """(B, T, D), (B, S, D) -> (B, T, D)."""
        x = x + self.attention(self.attention_norm(x), mask=tgt_mask)
        x = x + self.cross_attention(self.cross_norm(x), memory, mask=src_mask)
        return x + self.feed_forward(self.feed_forward_norm(x))


# Lesson 7.


def loss(logits, targets, pad_id, smoothing):
    """The mean cross-entropy of logits (B, T, V) over the targets (B, T) that are no padding."""
    return F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id, label_smoothing=smoothing
    )  # fmt: skip


def learning_rate(step, d_model, warmup):
    """Equation 3; steps count from 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


# Lesson 9.


def greedy(step, bos, eos, max_length):
    """The most likely token, again and again; `step(ids)` returns the logits of the next one, (V,)."""
    ids = [bos]
    while len(ids) < max_length and ids[-1] != eos:
        ids.append(int(step(ids).argmax()))
    return ids


def beam(step, bos, eos, beam_size, max_length):
    """The best of the hypotheses that a beam of `beam_size` keeps, by the sum of its log-probabilities."""
    hypotheses = [(0.0, [bos])]
    while (
        any(ids[-1] != eos for _, ids in hypotheses) and len(max((ids for _, ids in hypotheses), key=len)) < max_length
    ):
        continued = [hypothesis for hypothesis in hypotheses if hypothesis[1][-1] == eos]
        for score, ids in hypotheses:
            if ids[-1] != eos:
                best = torch.as_tensor(step(ids)).log_softmax(dim=-1).topk(beam_size)
                pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
                continued += [(score + value, [*ids, token]) for value, token in pairs]
        hypotheses = sorted(continued, key=lambda hypothesis: -hypothesis[0])[:beam_size]
    return hypotheses[0][1]
