"""Ten public tutorials, in code as a learner types it after them: each slip is named, and none is invented."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.judge.check import check
from tests.unit.judge.planting import make_file


@pytest.fixture(autouse=True)
def _without_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not change a judgement."""
    monkeypatch.setattr("pellucid.judge.check.SECONDS", 300.0)


def judge(part: Any, exercise: str, **others: Any) -> tuple[bool, tuple[str, ...]]:
    (finding,) = check(make_file(**{exercise: part}, **others), exercise)
    return finding.right, finding.mistakes


RIGHT = (True, ())
NOTE = (True, ("norm-sample-deviation",))
UNKNOWN = (False, ("unknown",))
"""The answer to a cosine schedule, and to a search whose end is a constant of its file: neither right nor a name."""


# PyTorch's tutorial of translation with nn.Transformer: lengths first, masks that are added.


class LengthFirstPositions(nn.Module):
    def __init__(self, emb_size: int, dropout: float, maxlen: int = 5000) -> None:
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        table = torch.zeros((maxlen, emb_size))
        table[:, 0::2], table[:, 1::2] = torch.sin(pos * den), torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", table.unsqueeze(-2))

    def forward(self, token_embedding: Tensor) -> Tensor:
        return self.dropout(token_embedding + self.pos_embedding[: token_embedding.size(0), :])


def generate_square_subsequent_mask(sz: int) -> Tensor:
    mask = (torch.triu(torch.ones((sz, sz))) == 1).transpose(0, 1)
    return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)


def greedy_decode_length_first(model: Any, src: Tensor, src_mask: Tensor, max_len: int, start_symbol: int) -> Tensor:
    memory = model.encode(src, src_mask)
    ys = torch.ones(1, 1).fill_(start_symbol).type(torch.long)
    for _ in range(max_len - 1):
        tgt_mask = generate_square_subsequent_mask(ys.size(0)).type(torch.bool)
        out = model.decode(ys, memory, tgt_mask).transpose(0, 1)
        next_word = model.generator(out[:, -1]).max(dim=1)[1].item()
        ys = torch.cat([ys, torch.ones(1, 1).type_as(src.data).fill_(next_word)], dim=0)
        if next_word == 3:
            break
    return ys


# minGPT and nanoGPT: one packed map, a causal mask inside.


class PackedCausalAttention(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn, self.c_proj = nn.Linear(config.n_embd, 3 * config.n_embd), nn.Linear(config.n_embd, config.n_embd)
        self.attn_dropout, self.resid_dropout = nn.Dropout(config.attn_pdrop), nn.Dropout(config.resid_pdrop)
        lower = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("bias", lower.view(1, 1, config.block_size, config.block_size))
        self.n_head, self.n_embd = config.n_head, config.n_embd

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (each.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for each in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C)))


class FlashCausalAttention(PackedCausalAttention):
    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (each.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for each in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class CausalBlock(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn = PackedCausalAttention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(), nn.Linear(4 * config.n_embd, config.n_embd)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NormWithOptionalBias(nn.Module):
    def __init__(self, ndim: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


def get_lr(it: int) -> float:
    if it < 2000:
        return 6e-4 * (it + 1) / 2001
    ratio = min(1.0, (it - 2000) / (600000 - 2000))
    return 6e-5 + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (6e-4 - 6e-5)


# A lecture that builds a GPT: heads one by one, scaled by the width of the model.


class LectureHead(nn.Module):
    width_of_scale = "C"

    def __init__(self, n_embd: int, head_size: int, block_size: int) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(n_embd, head_size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        _, T, C = x.shape
        k, q = self.key(x), self.query(x)
        width = C if self.width_of_scale == "C" else k.shape[-1]
        wei = q @ k.transpose(-2, -1) * width**-0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return self.dropout(F.softmax(wei, dim=-1)) @ self.value(x)


class MendedHead(LectureHead):
    width_of_scale = "head_size"


class LectureHeads(nn.Module):
    head = LectureHead

    def __init__(self, num_heads: int, head_size: int, n_embd: int, block_size: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(self.head(n_embd, head_size, block_size) for _ in range(num_heads))
        self.proj = nn.Linear(head_size * num_heads, n_embd)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))


class MendedHeads(LectureHeads):
    head = MendedHead


# Dive into Deep Learning: lengths in place of a mask.


def masked_softmax(X: Tensor, valid_lens: Tensor | None) -> Tensor:
    if valid_lens is None:
        return F.softmax(X, dim=-1)
    lens = torch.repeat_interleave(valid_lens, X.shape[1]) if valid_lens.dim() == 1 else valid_lens.reshape(-1)
    rows = X.reshape(-1, X.shape[-1])
    rows[~(torch.arange(rows.size(1))[None, :] < lens[:, None])] = -1e6
    return F.softmax(rows.reshape(X.shape), dim=-1)


class LengthAttention(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None) -> Tensor:
        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(queries.shape[-1])
        return torch.bmm(self.dropout(masked_softmax(scores, valid_lens)), values)


class LengthHeads(nn.Module):
    def __init__(self, num_hiddens: int, num_heads: int, dropout: float, bias: bool = False) -> None:
        super().__init__()
        self.num_heads, self.attention = num_heads, LengthAttention(dropout)
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(num_hiddens, num_hiddens, bias=bias) for _ in range(4))

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None) -> Tensor:
        q, k, v = (self.split(W(x)) for W, x in ((self.W_q, queries), (self.W_k, keys), (self.W_v, values)))
        if valid_lens is not None:
            valid_lens = torch.repeat_interleave(valid_lens, repeats=self.num_heads, dim=0)
        output = self.attention(q, k, v, valid_lens)
        output = output.reshape(-1, self.num_heads, *output.shape[1:]).permute(0, 2, 1, 3)
        return self.W_o(output.reshape(*output.shape[:2], -1))

    def split(self, X: Tensor) -> Tensor:
        X = X.reshape(X.shape[0], X.shape[1], self.num_heads, -1).permute(0, 2, 1, 3)
        return X.reshape(-1, X.shape[2], X.shape[3])


class TableOfPowers(nn.Module):
    def __init__(self, num_hiddens: int, dropout: float, max_len: int = 1000) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.P = torch.zeros((1, max_len, num_hiddens))
        steps = torch.arange(max_len, dtype=torch.float32).reshape(-1, 1)
        X = steps / torch.pow(10000, torch.arange(0, num_hiddens, 2, dtype=torch.float32) / num_hiddens)
        self.P[:, :, 0::2], self.P[:, :, 1::2] = torch.sin(X), torch.cos(X)

    def forward(self, X: Tensor) -> Tensor:
        return self.dropout(X + self.P[:, : X.shape[1], :].to(X.device))


# A video that codes a Transformer from scratch with explanations: blocks that are handed in.


class AlphaNorm(nn.Module):
    def __init__(self, features: int, eps: float = 10**-6) -> None:
        super().__init__()
        self.eps = eps
        self.alpha, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        return self.alpha * (x - x.mean(dim=-1, keepdim=True)) / (x.std(dim=-1, keepdim=True) + self.eps) + self.bias


class MultiHeadAttentionBlock(nn.Module):
    def __init__(self, d_model: int, h: int, dropout: float) -> None:
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: Any) -> Any:
        scores = (query @ key.transpose(-2, -1)) / math.sqrt(query.shape[-1])
        if mask is not None:
            scores.masked_fill_(mask == 0, -1e9)
        scores = scores.softmax(dim=-1)
        return (dropout(scores) if dropout is not None else scores) @ value, scores

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value = (
            each.view(each.shape[0], each.shape[1], self.h, self.d_k).transpose(1, 2)
            for each in (self.w_q(q), self.w_k(k), self.w_v(v))
        )
        x, _ = MultiHeadAttentionBlock.attention(query, key, value, mask, self.dropout)
        return self.w_o(x.transpose(1, 2).contiguous().view(x.shape[0], -1, self.h * self.d_k))


class ResidualConnection(nn.Module):
    def __init__(self, features: int, dropout: float) -> None:
        super().__init__()
        self.dropout, self.norm = nn.Dropout(dropout), AlphaNorm(features)

    def forward(self, x: Tensor, sublayer: Any) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class BlockOfBlocks(nn.Module):
    def __init__(
        self, features: int, self_attention_block: nn.Module, feed_forward_block: nn.Module, dropout: float
    ) -> None:
        super().__init__()
        self.self_attention_block, self.feed_forward_block = self_attention_block, feed_forward_block
        self.residual_connections = nn.ModuleList(ResidualConnection(features, dropout) for _ in range(2))

    def forward(self, x: Tensor, src_mask: Tensor) -> Tensor:
        x = self.residual_connections[0](x, lambda x: self.self_attention_block(x, x, x, src_mask))
        return self.residual_connections[1](x, self.feed_forward_block)


class DecoderOfBlocks(nn.Module):
    def __init__(
        self, features: int, self_attention_block: nn.Module, cross_attention_block: nn.Module,
        feed_forward_block: nn.Module, dropout: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.self_attention_block, self.cross_attention_block = self_attention_block, cross_attention_block
        self.feed_forward_block = feed_forward_block
        self.residual_connections = nn.ModuleList(ResidualConnection(features, dropout) for _ in range(3))

    def forward(self, x: Tensor, encoder_output: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        x = self.residual_connections[0](x, lambda x: self.self_attention_block(x, x, x, tgt_mask))
        x = self.residual_connections[1](
            x, lambda x: self.cross_attention_block(x, encoder_output, encoder_output, src_mask)
        )
        return self.residual_connections[2](x, self.feed_forward_block)


def causal_mask_of_zeros(size: int) -> Tensor:
    return torch.triu(torch.ones((1, size, size)), diagonal=1).type(torch.int) == 0


# TensorFlow's tutorial, ported: ones in hidden places, halves of sines and cosines in its later form.


def create_padding_mask(seq: Tensor) -> Tensor:
    return torch.eq(seq, 0).float()[:, None, None, :]


def create_look_ahead_mask(size: int) -> Tensor:
    return 1 - torch.tril(torch.ones(size, size))


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
    logits = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(k.shape[-1])
    if mask is not None:
        logits = logits + mask * -1e9
    weights = F.softmax(logits, dim=-1)
    return torch.matmul(weights, v), weights


def get_angles(pos: Any, i: Any, d_model: int) -> Any:
    return pos * (1 / np.power(10000, (2 * (i // 2)) / np.float32(d_model)))


def positional_encoding(position: int, d_model: int) -> Tensor:
    rads = get_angles(np.arange(position)[:, np.newaxis], np.arange(d_model)[np.newaxis, :], d_model)
    rads[:, 0::2], rads[:, 1::2] = np.sin(rads[:, 0::2]), np.cos(rads[:, 1::2])
    return torch.tensor(rads[np.newaxis, ...])


def positional_encoding_in_halves(length: int, depth: int) -> Any:
    depths = np.arange(depth // 2)[np.newaxis, :] / (depth / 2)
    rads = np.arange(length)[:, np.newaxis] / (10000**depths)
    return np.concatenate([np.sin(rads), np.cos(rads)], axis=-1)


class PortedHeads(nn.Module):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.d_model, self.depth = num_heads, d_model, d_model // num_heads
        self.wq, self.wk, self.wv, self.dense = (nn.Linear(d_model, d_model) for _ in range(4))

    def split_heads(self, x: Tensor, batch_size: int) -> Tensor:
        return x.reshape(batch_size, -1, self.num_heads, self.depth).permute(0, 2, 1, 3)

    def forward(self, v: Tensor, k: Tensor, q: Tensor, mask: Tensor) -> Any:
        rows = q.shape[0]
        q, k, v = (self.split_heads(w(x), rows) for w, x in ((self.wq, q), (self.wk, k), (self.wv, v)))
        attention, weights = scaled_dot_product_attention(q, k, v, mask)
        return self.dense(attention.permute(0, 2, 1, 3).reshape(rows, -1, self.d_model)), weights


class PortedEncoderLayer(nn.Module):
    def __init__(self, d_model: int, num_heads: int, dff: int, rate: float = 0.1) -> None:
        super().__init__()
        self.mha = PortedHeads(d_model, num_heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, dff), nn.ReLU(), nn.Linear(dff, d_model))
        self.layernorm1, self.layernorm2 = nn.LayerNorm(d_model, eps=1e-6), nn.LayerNorm(d_model, eps=1e-6)
        self.dropout1, self.dropout2 = nn.Dropout(rate), nn.Dropout(rate)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        attended, _ = self.mha(x, x, x, mask)
        out1 = self.layernorm1(x + self.dropout1(attended))
        return self.layernorm2(out1 + self.dropout2(self.ffn(out1)))


class PortedSchedule:
    def __init__(self, d_model: int, warmup_steps: int = 4000) -> None:
        self.d_model, self.warmup_steps = float(d_model), warmup_steps

    def __call__(self, step: float) -> float:
        return self.d_model**-0.5 * min(max(step, 1) ** -0.5, step * self.warmup_steps**-1.5)


def loss_function(real: Tensor, pred: Tensor) -> Tensor:
    mask = torch.logical_not(torch.eq(real, 0))
    each = F.cross_entropy(pred.transpose(1, 2), real, reduction="none") * mask
    return each.sum() / mask.sum()


# Annotated implementations side by side with notes: lengths first, arguments by name alone.


class PreparedHeads(nn.Module):
    def __init__(self, d_model: int, heads: int, d_k: int, bias: bool) -> None:
        super().__init__()
        self.linear, self.heads, self.d_k = nn.Linear(d_model, heads * d_k, bias=bias), heads, d_k

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).view(*x.shape[:-1], self.heads, self.d_k)


class NamedHeads(nn.Module):
    def __init__(self, heads: int, d_model: int, dropout_prob: float = 0.1, bias: bool = True) -> None:
        super().__init__()
        self.d_k, self.heads = d_model // heads, heads
        self.query, self.key = (PreparedHeads(d_model, heads, self.d_k, bias=bias) for _ in range(2))
        self.value = PreparedHeads(d_model, heads, self.d_k, bias=True)
        self.softmax, self.output, self.dropout = (
            nn.Softmax(dim=1),
            nn.Linear(d_model, d_model),
            nn.Dropout(dropout_prob),
        )
        self.scale = 1 / math.sqrt(self.d_k)

    def forward(self, *, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        length, rows, _ = query.shape
        if mask is not None:
            mask = mask.unsqueeze(-1)
        query, key, value = self.query(query), self.key(key), self.value(value)
        scores = torch.einsum("ibhd,jbhd->ijbh", query, key) * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        x = torch.einsum("ijbh,jbhd->ibhd", self.dropout(self.softmax(scores)), value)
        return self.output(x.reshape(length, rows, -1))


def get_positional_encoding(d_model: int, max_len: int = 5000) -> Tensor:
    encodings = torch.zeros(max_len, d_model)
    position = torch.arange(0, max_len, dtype=torch.float32).unsqueeze(1)
    two_i = torch.arange(0, d_model, 2, dtype=torch.float32)
    div_term = torch.exp(two_i * -(math.log(10000.0) / d_model))
    encodings[:, 0::2], encodings[:, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
    return encodings.unsqueeze(1).requires_grad_(False)


# A post on how to code the Transformer: loops over the places of a table, exponents of its own.


def attention_with_width(
    q: Tensor, k: Tensor, v: Tensor, d_k: int, mask: Tensor | None = None, dropout: Any = None
) -> Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    scores = F.softmax(scores, dim=-1)
    return torch.matmul(scores if dropout is None else dropout(scores), v)


class LoopedPositions(nn.Module):
    def __init__(self, d_model: int, max_seq_len: int = 80) -> None:
        super().__init__()
        self.d_model = d_model
        pe = torch.zeros(max_seq_len, d_model)
        for pos in range(max_seq_len):
            for i in range(0, d_model, 2):
                pe[pos, i] = math.sin(pos / (10000 ** ((2 * i) / d_model)))
                pe[pos, i + 1] = math.cos(pos / (10000 ** ((2 * (i + 1)) / d_model)))
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        return x * math.sqrt(self.d_model) + self.pe[:, : x.size(1)]


class HeadsOfThePost(nn.Module):
    def __init__(self, heads: int, d_model: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.d_model, self.d_k, self.h = d_model, d_model // heads, heads
        self.q_linear, self.v_linear, self.k_linear, self.out = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = q.size(0)
        q, k, v = (
            linear(x).view(rows, -1, self.h, self.d_k).transpose(1, 2)
            for linear, x in ((self.q_linear, q), (self.k_linear, k), (self.v_linear, v))
        )
        if mask is not None:
            mask = mask.unsqueeze(1)
        scores = attention_with_width(q, k, v, self.d_k, mask, self.dropout)
        return self.out(scores.transpose(1, 2).contiguous().view(rows, -1, self.d_model))


class LayerOfThePost(nn.Module):
    def __init__(self, d_model: int, heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = AlphaNorm(d_model), AlphaNorm(d_model)
        self.attn = HeadsOfThePost(heads, d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.ReLU(), nn.Linear(2 * d_model, d_model))
        self.dropout_1, self.dropout_2 = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x2 = self.norm_1(x)
        x = x + self.dropout_1(self.attn(x2, x2, x2, mask))
        return x + self.dropout_2(self.ff(self.norm_2(x)))


# A book that builds a language model: sizes by many names, hidden where the buffer is True.


class BookHeads(nn.Module):
    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        self.d_out, self.num_heads, self.head_dim = d_out, num_heads, d_out // num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3))
        self.out_proj, self.dropout = nn.Linear(d_out, d_out), nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x: Tensor) -> Tensor:
        b, num_tokens, _ = x.shape
        keys, queries, values = (
            w(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
            for w in (self.W_key, self.W_query, self.W_value)
        )
        scores = queries @ keys.transpose(2, 3)
        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
        weights = self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1))
        context = (weights @ values).transpose(1, 2).contiguous().view(b, num_tokens, self.d_out)
        return self.out_proj(context)


# A repository that is copied often: the smallest modules, arguments `q, k, v, mask`, norms afterwards.


class ScaleDotProductAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, e: float = 1e-12) -> Any:
        score = (q @ k.transpose(2, 3)) / math.sqrt(k.size(-1))
        if mask is not None:
            score = score.masked_fill(mask == 0, -10000)
        score = self.softmax(score)
        return score @ v, score


class ConcatHeads(nn.Module):
    def __init__(self, d_model: int, n_head: int) -> None:
        super().__init__()
        self.n_head, self.attention = n_head, ScaleDotProductAttention()
        self.w_q, self.w_k, self.w_v, self.w_concat = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (self.split(w(x)) for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v)))
        out, _ = self.attention(q, k, v, mask=mask)
        rows, head, length, width = out.size()
        return self.w_concat(out.transpose(1, 2).contiguous().view(rows, length, head * width))

    def split(self, tensor: Tensor) -> Tensor:
        rows, length, d_model = tensor.size()
        return tensor.view(rows, length, self.n_head, d_model // self.n_head).transpose(1, 2)


class NormByVariance(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-12) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        return self.gamma * ((x - mean) / torch.sqrt(var + self.eps)) + self.beta


class CopiedDecoder(nn.Module):
    def __init__(self, d_model: int, ffn_hidden: int, n_head: int, drop_prob: float) -> None:
        super().__init__()
        self.self_attention, self.enc_dec_attention = ConcatHeads(d_model, n_head), ConcatHeads(d_model, n_head)
        self.norm1, self.norm2, self.norm3 = (NormByVariance(d_model) for _ in range(3))
        self.dropout = nn.Dropout(drop_prob)
        self.ffn = nn.Sequential(nn.Linear(d_model, ffn_hidden), nn.ReLU(), nn.Linear(ffn_hidden, d_model))

    def forward(self, dec: Tensor, enc: Tensor, trg_mask: Tensor, src_mask: Tensor) -> Tensor:
        x = self.norm1(self.dropout(self.self_attention(q=dec, k=dec, v=dec, mask=trg_mask)) + dec)
        x = self.norm2(self.dropout(self.enc_dec_attention(q=x, k=enc, v=enc, mask=src_mask)) + x)
        return self.norm3(self.dropout(self.ffn(x)) + x)


@pytest.mark.parametrize(
    ("part", "exercise", "expected"),
    [
        (LengthFirstPositions, "positional_encoding", RIGHT),
        (generate_square_subsequent_mask, "causal_mask", RIGHT),
        (greedy_decode_length_first, "greedy", UNKNOWN),
        (PackedCausalAttention, "MultiHeadAttention", RIGHT),
        (FlashCausalAttention, "MultiHeadAttention", RIGHT),
        (CausalBlock, "EncoderLayer", RIGHT),
        (NormWithOptionalBias, "LayerNorm", RIGHT),
        (get_lr, "learning_rate", UNKNOWN),
        (LectureHeads, "MultiHeadAttention", (False, ("scale-d-model",))),
        (MendedHeads, "MultiHeadAttention", RIGHT),
        (LengthAttention, "attention", RIGHT),
        (LengthHeads, "MultiHeadAttention", RIGHT),
        (TableOfPowers, "positional_encoding", RIGHT),
        (AlphaNorm, "LayerNorm", NOTE),
        (MultiHeadAttentionBlock, "MultiHeadAttention", RIGHT),
        (BlockOfBlocks, "EncoderLayer", RIGHT),
        (DecoderOfBlocks, "DecoderLayer", RIGHT),
        (causal_mask_of_zeros, "causal_mask", RIGHT),
        (create_padding_mask, "padding_mask", RIGHT),
        (create_look_ahead_mask, "causal_mask", RIGHT),
        (scaled_dot_product_attention, "attention", RIGHT),
        (positional_encoding, "positional_encoding", RIGHT),
        (positional_encoding_in_halves, "positional_encoding", (True, ("positions-halves",))),
        (PortedHeads, "MultiHeadAttention", RIGHT),
        (PortedEncoderLayer, "EncoderLayer", RIGHT),
        (PortedSchedule, "learning_rate", RIGHT),
        (loss_function, "loss", RIGHT),
        (NamedHeads, "MultiHeadAttention", RIGHT),
        (get_positional_encoding, "positional_encoding", RIGHT),
        (attention_with_width, "attention", RIGHT),
        (LoopedPositions, "positional_encoding", (False, ("positions-cosine-exponent",))),
        (HeadsOfThePost, "MultiHeadAttention", RIGHT),
        (LayerOfThePost, "EncoderLayer", RIGHT),
        (BookHeads, "MultiHeadAttention", RIGHT),
        (ScaleDotProductAttention, "attention", RIGHT),
        (ConcatHeads, "MultiHeadAttention", RIGHT),
        (NormByVariance, "LayerNorm", RIGHT),
        (CopiedDecoder, "DecoderLayer", RIGHT),
    ],
)
def test_a_part_of_a_tutorial(part: Any, exercise: str, expected: tuple[bool, tuple[str, ...]]) -> None:
    assert judge(part, exercise) == expected


def test_masks_and_attention_of_one_file_agree() -> None:
    ported = {"causal_mask": create_look_ahead_mask, "padding_mask": create_padding_mask}
    assert judge(scaled_dot_product_attention, "attention", **ported) == RIGHT
    assert judge(PortedHeads, "MultiHeadAttention", **ported) == RIGHT
    mixed = {"causal_mask": causal_mask_of_zeros}
    assert judge(scaled_dot_product_attention, "attention", **mixed) == (False, ("mask-inverted",))


def test_a_configuration_with_the_sizes_of_a_language_model() -> None:
    config = SimpleNamespace(n_embd=12, n_head=3, block_size=16, attn_pdrop=0.1, resid_pdrop=0.1)
    assert check(PackedCausalAttention(config), "MultiHeadAttention")[0].right
