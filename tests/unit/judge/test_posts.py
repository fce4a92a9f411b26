"""The slips of tutorials, in code as a learner types it after them: each is named, and none is invented."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.judge.check import check
from pellucid.judge.mistakes import ANNOTATED, KERAS, MISTAKES, PERSSON, SEQ2SEQ, UNIVERSE
from tests.unit.judge.planting import make_file


def named(obj: Any, exercise: str) -> set[str]:
    """The mistakes of one object."""
    (finding,) = check(obj, exercise)
    return set(finding.mistakes)


# The Annotated Transformer, and its copies.


def scaled_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: Any = None) -> Any:
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(dim=-1)
    if dropout is not None:
        weights = dropout(weights)
    return torch.matmul(weights, value), weights


class MultiHeadedAttention(nn.Module):
    def __init__(self, h: int, d_model: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            mask = mask.unsqueeze(1)
        rows = query.size(0)
        query, key, value = (
            linear(x).view(rows, -1, self.h, self.d_k).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, value), strict=False)
        )
        x, _ = scaled_attention(query, key, value, mask=mask, dropout=self.dropout)
        return self.linears[-1](x.transpose(1, 2).contiguous().view(rows, -1, self.h * self.d_k))


class SampleNorm(nn.Module):
    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.b_2


class SublayerConnection(nn.Module):
    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = SampleNorm(size), nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Any) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class AnnotatedEncoderLayer(nn.Module):
    def __init__(self, size: int, self_attn: nn.Module, feed_forward: nn.Module, dropout: float) -> None:
        super().__init__()
        self.self_attn, self.feed_forward = self_attn, feed_forward
        self.sublayer = nn.ModuleList(SublayerConnection(size, dropout) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask))
        return self.sublayer[1](x, self.feed_forward)


class AnnotatedDecoderLayer(nn.Module):
    def __init__(
        self, size: int, self_attn: nn.Module, src_attn: nn.Module, feed_forward: nn.Module, dropout: float
    ) -> None:
        super().__init__()
        self.self_attn, self.src_attn, self.feed_forward = self_attn, src_attn, feed_forward
        self.sublayer = nn.ModuleList(SublayerConnection(size, dropout) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask))
        x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, src_mask))
        return self.sublayer[2](x, self.feed_forward)


class CopiedDecoderLayer(AnnotatedDecoderLayer):
    """As a copy has it: the memory goes through `self_attn`."""

    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask))
        x = self.sublayer[1](x, lambda x: self.self_attn(x, memory, memory, src_mask))
        return self.sublayer[2](x, self.feed_forward)


class AddedPositions(nn.Module):
    def __init__(self, d_model: int, dropout: float, max_len: int = 5000) -> None:
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.pe[:, : x.size(1)].requires_grad_(False))


class LabelSmoothing(nn.Module):
    def __init__(self, size: int, padding_idx: int, smoothing: float = 0.0) -> None:
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="sum")
        self.padding_idx, self.smoothing, self.size = padding_idx, smoothing, size

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        assert x.size(1) == self.size
        true = x.data.clone().fill_(self.smoothing / (self.size - 2))
        true.scatter_(1, target.data.unsqueeze(1), 1.0 - self.smoothing)
        true[:, self.padding_idx] = 0
        padding = torch.nonzero(target.data == self.padding_idx)
        if padding.dim() > 0:
            true.index_fill_(0, padding.squeeze(), 0.0)
        return self.criterion(x, true.clone().detach())


def rate(step: int, model_size: int, factor: float, warmup: int) -> float:
    if step == 0:
        step = 1
    return float(factor * (model_size**-0.5 * min(step**-0.5, step * warmup**-1.5)))


def subsequent_mask(size: int) -> Tensor:
    return torch.triu(torch.ones(1, size, size), diagonal=1).type(torch.uint8) == 0


def greedy_decode(model: Any, src: Tensor, src_mask: Tensor, max_len: int, start_symbol: int) -> Tensor:
    memory = model.encode(src, src_mask)
    ys = torch.zeros(1, 1).fill_(start_symbol).type_as(src.data)
    for _ in range(max_len - 1):
        out = model.decode(memory, src_mask, ys, subsequent_mask(ys.size(1)).type_as(src.data))
        _, word = torch.max(model.generator(out[:, -1]), dim=1)
        ys = torch.cat([ys, torch.zeros(1, 1).type_as(src.data).fill_(word.data[0])], dim=1)
    return ys


@pytest.mark.parametrize(
    ("part", "exercise"),
    [
        (scaled_attention, "attention"),
        (MultiHeadedAttention, "MultiHeadAttention"),
        (SampleNorm, "LayerNorm"),
        (AnnotatedEncoderLayer, "EncoderLayer"),
        (AnnotatedDecoderLayer, "DecoderLayer"),
        (AddedPositions, "positional_encoding"),
        (LabelSmoothing, "loss"),
        (rate, "learning_rate"),
        (subsequent_mask, "causal_mask"),
        (greedy_decode, "greedy"),
    ],
)
def test_the_annotated_transformer_is_right(part: Any, exercise: str) -> None:
    (finding,) = check(part, exercise)
    assert finding.list_lines() == [f"right {exercise}"]


def test_its_layer_norm_by_the_sample_deviation_is_a_note() -> None:
    (finding,) = check(SampleNorm, "LayerNorm")
    assert finding.mistakes == ("norm-sample-deviation",)
    assert "n - 1" in finding.list_notes()[0]
    assert ANNOTATED in MISTAKES["norm-sample-deviation"].posts


def test_a_copy_whose_memory_goes_through_the_self_attention() -> None:
    (finding,) = check(CopiedDecoderLayer, "DecoderLayer")
    assert finding.mistakes == ("unused-part", "cross-is-self-attention")
    assert finding.details[0] == "src_attn"
    assert ANNOTATED in MISTAKES["cross-is-self-attention"].posts


# Natural Language Processing with Transformers.


def plain_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    weights = F.softmax(torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.size(-1)), dim=-1)
    return torch.bmm(weights, value)


class AttentionHead(nn.Module):
    def __init__(self, embed_dim: int, head_dim: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(embed_dim, head_dim) for _ in range(3))

    def forward(self, hidden_state: Tensor) -> Tensor:
        return plain_attention(self.q(hidden_state), self.k(hidden_state), self.v(hidden_state))


class HeadByHead(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        width, count = config.hidden_size, config.num_attention_heads
        self.heads = nn.ModuleList(AttentionHead(width, width // count) for _ in range(count))
        self.output_linear = nn.Linear(width, width)

    def forward(self, hidden_state: Tensor) -> Tensor:
        return self.output_linear(torch.cat([head(hidden_state) for head in self.heads], dim=-1))


class FeedForward(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.linear_2 = nn.Linear(config.intermediate_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.linear_2(F.gelu(self.linear_1(x))))


class TransformerEncoderLayer(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.layer_norm_1, self.layer_norm_2 = nn.LayerNorm(config.hidden_size), nn.LayerNorm(config.hidden_size)
        self.attention, self.feed_forward = HeadByHead(config), FeedForward(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.layer_norm_1(x))
        return x + self.feed_forward(self.layer_norm_2(x))


def test_a_classifier_without_a_padding_mask() -> None:
    assert named(plain_attention, "attention") == {"mask-missing"}
    assert named(HeadByHead, "MultiHeadAttention") == {"mask-missing"}
    assert named(TransformerEncoderLayer, "EncoderLayer") == {"layer-mask-dropped"}
    assert UNIVERSE in MISTAKES["mask-missing"].posts


# A Keras tutorial, in PyTorch and NumPy.


def positional_encoding(pos: int, d_model: int) -> Any:
    table = np.array([[place / np.power(10000, int(i) / d_model) for i in range(d_model)] for place in range(pos)])
    table[:, 0::2], table[:, 1::2] = np.sin(table[:, 0::2]), np.cos(table[:, 1::2])
    return table


def generate_padding_mask(seq: Any) -> Any:
    return (
        (seq == 0).astype(np.float32)[:, np.newaxis, np.newaxis, :]
        if isinstance(seq, np.ndarray)
        else (seq == 0).float()[:, None, None]
    )


def generate_causality_mask(src_len: int, tgt_len: int) -> Any:
    return 1 - np.cumsum(np.eye(src_len, tgt_len), 0)


def attend_with_hidden_ones(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor) -> Any:
    scores = Q @ K.transpose(-1, -2) / math.sqrt(K.shape[-1])
    if mask is not None:
        scores += mask * -1e9
    weights = scores.softmax(-1)
    return weights @ V, weights


class SwappedDecoderLayer(nn.Module):
    """Its self-attention gets the padding mask, and its cross-attention the causal one."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.dec_self_attn, self.enc_dec_attn = (MultiHeadedAttention(num_heads, d_model, dropout) for _ in range(2))
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x: Tensor, enc_out: Tensor, causality_mask: Tensor, padding_mask: Tensor) -> Tensor:
        out = self.norm_1(x)
        x = x + self.dec_self_attn(out, out, out, padding_mask)
        x = x + self.enc_dec_attn(self.norm_2(x), enc_out, enc_out, causality_mask)
        return x + self.ffn(self.norm_3(x))


class DiscardingAttention(MultiHeadedAttention):
    """The output projection is computed, and the joined heads are returned."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = query.size(0)
        q, k, v = (
            linear(x).view(rows, -1, self.h, self.d_k).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, value), strict=False)
        )
        x, _ = attend_with_hidden_ones(q, k, v, mask)
        x = x.transpose(1, 2).reshape(rows, -1, self.h * self.d_k)
        self.linears[-1](x)
        return x


class LearningRateScheduler:
    def __init__(self, d_model: int, warmup_steps: int = 4000) -> None:
        self.d_model, self.warmup_steps = d_model, warmup_steps

    def __call__(self, step: int) -> float:
        return float(self.d_model**-0.5 * min(step**-0.5, step * self.warmup_steps**-1.5))


def test_the_keras_tutorial() -> None:
    assert named(positional_encoding, "positional_encoding") == {"positions-own-exponent"}
    assert named(generate_padding_mask, "padding_mask") == set()
    assert named(generate_causality_mask, "causal_mask") == set()
    assert named(attend_with_hidden_ones, "attention") == set()
    assert named(SwappedDecoderLayer, "DecoderLayer") == {"masks-swapped"}
    assert named(DiscardingAttention, "MultiHeadAttention") == {"unused-part", "output-discarded"}
    (finding,) = check(LearningRateScheduler, "learning_rate")
    assert (finding.right, finding.mistakes) == (True, ("rate-step-zero",))
    for id in ("positions-own-exponent", "masks-swapped", "output-discarded", "rate-step-zero"):
        assert KERAS in MISTAKES[id].posts


# A review with PyTorch, after a course on the Transformer.


class OneProjection(nn.Module):
    def __init__(self, hidden_dim: int, n_heads: int, dropout_ratio: float, device: str) -> None:
        super().__init__()
        self.hidden_dim, self.n_heads, self.head_dim = hidden_dim, n_heads, hidden_dim // n_heads
        self.fc_qkv, self.fc_o = nn.Linear(hidden_dim, hidden_dim), nn.Linear(hidden_dim, hidden_dim)
        self.device = device

    def forward(self, q_in: Tensor, k_in: Tensor, v_in: Tensor, mask: Tensor | None = None) -> Any:
        rows = q_in.shape[0]

        def split(x: Tensor) -> Tensor:
            return self.fc_qkv(x).view(rows, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)

        q, k, v = split(q_in), split(k_in), split(v_in)
        scale = torch.sqrt(torch.FloatTensor([self.head_dim])).to(self.device)
        weights = torch.softmax(torch.matmul(q, k.permute(0, 1, 3, 2)) / scale, dim=-1)
        out = torch.matmul(weights, v).permute(0, 2, 1, 3).contiguous().view(rows, -1, self.hidden_dim)
        return self.fc_qkv(out), weights


def test_the_review_with_one_projection() -> None:
    (finding,) = check(OneProjection, "MultiHeadAttention")
    assert finding.mistakes == ("unused-part", "one-projection", "mask-ignored", "output-reuses-projection")
    assert finding.details[0] == "fc_o"
    assert all(SEQ2SEQ in MISTAKES[id].posts for id in finding.mistakes)


# A video's Transformer from scratch.


class SelfAttention(nn.Module):
    def __init__(self, embed_size: int, heads: int) -> None:
        super().__init__()
        self.embed_size, self.heads, self.head_dim = embed_size, heads, embed_size // heads
        self.values, self.keys, self.queries = (nn.Linear(self.head_dim, self.head_dim, bias=False) for _ in range(3))
        self.fc_out = nn.Linear(heads * self.head_dim, embed_size)

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        rows, length = query.shape[0], query.shape[1]
        v = self.values(values.reshape(rows, -1, self.heads, self.head_dim))
        k = self.keys(keys.reshape(rows, -1, self.heads, self.head_dim))
        q = self.queries(query.reshape(rows, -1, self.heads, self.head_dim))
        energy = torch.einsum("nqhd,nkhd->nhqk", [q, k])
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        weights = torch.softmax(energy / (self.embed_size ** (1 / 2)), dim=3)
        return self.fc_out(
            torch.einsum("nhql,nlhd->nqhd", [weights, v]).reshape(rows, length, self.heads * self.head_dim)
        )


class TransformerBlock(nn.Module):
    def __init__(self, embed_size: int, heads: int, dropout: float, forward_expansion: int) -> None:
        super().__init__()
        self.attention = SelfAttention(embed_size, heads)
        self.norm1, self.norm2 = nn.LayerNorm(embed_size), nn.LayerNorm(embed_size)
        self.feed_forward = nn.Sequential(
            nn.Linear(embed_size, forward_expansion * embed_size),
            nn.ReLU(),
            nn.Linear(forward_expansion * embed_size, embed_size),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, value: Tensor, key: Tensor, query: Tensor, mask: Tensor) -> Any:
        x = self.dropout(self.norm1(self.attention(value, key, query, mask) + query))
        return self.dropout(self.norm2(self.feed_forward(x) + x))


class BlockWithoutReturn(TransformerBlock):
    def forward(self, value: Tensor, key: Tensor, query: Tensor, mask: Tensor) -> Any:
        super().forward(value, key, query, mask)


class DecoderBlock(nn.Module):
    def __init__(self, embed_size: int, heads: int, forward_expansion: int, dropout: float, device: str) -> None:
        super().__init__()
        self.attention, self.norm = SelfAttention(embed_size, heads), nn.LayerNorm(embed_size)
        self.transformer_block = TransformerBlock(embed_size, heads, dropout, forward_expansion)

    def forward(self, x: Tensor, value: Tensor, key: Tensor, src_mask: Tensor, trg_mask: Tensor) -> Any:
        query = self.norm(self.attention(x, x, x, trg_mask) + x)
        return self.transformer_block(value, key, query, src_mask)


class FloatWidth(SelfAttention):
    def __init__(self, embed_size: int, heads: int) -> None:
        super().__init__(embed_size, heads)
        self.values = nn.Linear(embed_size / heads, embed_size / heads)


def test_the_transformer_from_scratch() -> None:
    assert named(SelfAttention, "MultiHeadAttention") == {"heads-share-projection", "scale-d-model"}
    assert named(TransformerBlock, "EncoderLayer") == set()
    assert named(BlockWithoutReturn, "EncoderLayer") == {"returns-nothing"}
    assert named(DecoderBlock, "DecoderLayer") == set()
    for id in ("heads-share-projection", "scale-d-model", "returns-nothing"):
        assert PERSSON in MISTAKES[id].posts
    (finding,) = check(FloatWidth, "MultiHeadAttention")
    assert finding.mistakes == ("raises",)
    assert "TypeError" in finding.sentence
    assert "test_posts.py, line " in finding.sentence


def test_masks_with_ones_in_hidden_places_and_an_attention_that_reads_them() -> None:
    file = make_file(causal_mask=generate_causality_mask, attention=attend_with_hidden_ones)
    assert [finding.right for finding in check(file)] == [True, True]
    mixed = make_file(causal_mask=subsequent_mask, attention=attend_with_hidden_ones)
    masks, attention = check(mixed)
    assert (masks.right, masks.mask) == (True, "keep")
    assert attention.right is False


def test_a_configuration_is_read_by_attribute_and_by_key() -> None:
    assert isinstance(HeadByHead(SimpleNamespace(hidden_size=8, num_attention_heads=2)), nn.Module)
    by_key = type(
        "Mha",
        (HeadByHead,),
        {
            "__init__": lambda self, cfg: HeadByHead.__init__(
                self, SimpleNamespace(hidden_size=cfg["emb_dim"], num_attention_heads=cfg["n_heads"])
            )
        },
    )
    assert named(by_key, "MultiHeadAttention") == {"mask-missing"}
