"""Right code in many styles is right: five of each exercise, and 200 at random, of which none gets a name."""

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pellucid
from pellucid.judge import attention, loss, schedule
from pellucid.judge.check import check
from pellucid.judge.positions import compute_table

LEAST = -torch.inf


def is_right(part: Any, exercise: str) -> bool:
    """Returns True if the judge calls the part right."""
    (finding,) = check(part, exercise)
    assert finding.right, (finding.mistakes, finding.details)
    return finding.right


# Attention: the product, the scale, the meaning of a mask and the softmax vary independently.

PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "matmul": lambda q, k: torch.matmul(q, k.transpose(-2, -1)),
    "einsum": lambda q, k: torch.einsum("...ld,...md->...lm", q, k),
    "sum": lambda q, k: (q[..., :, None, :] * k[..., None, :, :]).sum(-1),
}
SCALES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "divided": lambda s, width: s / math.sqrt(width),
    "power": lambda s, width: s * width**-0.5,
    "tensor": lambda s, width: s / torch.sqrt(torch.tensor(float(width))),
}
MASKS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "keep == 0": lambda s, mask: s.masked_fill(mask == 0, -1e9),
    "not keep": lambda s, mask: s.masked_fill(~mask, LEAST),
    "where": lambda s, mask: torch.where(mask.bool(), s, torch.tensor(-1e20)),
    "one minus keep": lambda s, mask: s + (1.0 - mask) * -1e9,
    "hidden": lambda s, mask: s.masked_fill(mask, LEAST),
    "hidden times": lambda s, mask: s + mask * -1e9,
    "hidden == 1": lambda s, mask: s.masked_fill(mask == 1, -1e9),
    "added": lambda s, mask: s + mask,
}
SOFTMAXES: dict[str, Callable[[Tensor], Tensor]] = {
    "method": lambda s: s.softmax(-1),
    "function": lambda s: F.softmax(s, dim=-1),
    "by hand": lambda s: (
        (s - s.amax(-1, keepdim=True)).exp() / (s - s.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    ),
    "logarithm": lambda s: s.log_softmax(-1).exp(),
}


def write_attention(product: str, scale: str, masking: str, softmax: str, returns: str) -> Callable[..., Any]:
    """A right attention in one style."""

    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        scores = SCALES[scale](PRODUCTS[product](query, key), key.shape[-1])
        weights = SOFTMAXES[softmax](scores if mask is None else MASKS[masking](scores, mask))
        output = weights @ value
        return {"output": output, "both": (output, weights)}[returns]

    return attend


ATTENTIONS = list(itertools.product(PRODUCTS, SCALES, MASKS, SOFTMAXES, ("output", "both")))


class Heads(nn.Module):
    """Several heads in one of many styles: packed or not, with biases or without, batch first or not."""

    def __init__(self, embed_dim: int, nhead: int, style: dict[str, str]) -> None:
        super().__init__()
        bias = style["bias"] == "yes"
        self.packed = nn.Linear(embed_dim, 3 * embed_dim, bias=bias) if style["packed"] != "no" else None
        self.parts = nn.ModuleList(
            nn.Linear(embed_dim, embed_dim, bias=bias) for _ in range(3 if self.packed is None else 0)
        )
        self.last = nn.Linear(embed_dim, embed_dim)
        self.heads, self.style = nhead, style

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        x = x if self.style["batch"] == "first" else x.transpose(0, 1)
        rows, length, width = x.shape
        if self.packed is None:
            q, k, v = (part(x) for part in self.parts)
        elif self.style["packed"] == "rows":
            q, k, v = self.packed(x).chunk(3, dim=-1)
        else:
            q, k, v = self.packed(x).view(rows, length, self.heads, 3, -1).unbind(3)
        q, k, v = (each.reshape(rows, length, self.heads, -1).transpose(1, 2) for each in (q, k, v))
        if mask is not None and self.style["mask"] == "three":
            mask = mask[:, None]
        output, _ = write_attention("matmul", "divided", "keep == 0", "method", "both")(q, k, v, mask)
        output = self.last(output.transpose(1, 2).reshape(rows, length, width))
        return output if self.style["batch"] == "first" else output.transpose(0, 1)


HEADS = [
    {"bias": bias, "packed": packed, "batch": batch, "mask": mask}
    for bias in ("yes", "no")
    for packed in ("no", "rows", "heads")
    for batch in ("first", "second")
    for mask in ("four", "three")
]


@pytest.mark.slow
def test_200_right_variants_get_no_name() -> None:
    generator = random.Random(40)
    parts: list[tuple[Any, str]] = [
        (write_attention(*style), "attention") for style in generator.sample(ATTENTIONS, 120)
    ]
    parts += [(Heads(12, 3, style), "MultiHeadAttention") for style in HEADS]
    parts += [(write_loss(*style), "loss") for style in generator.sample(LOSSES, 40)]
    parts += [(write_rate(*style), "learning_rate") for style in RATES]
    assert len(parts) >= 200
    assert all(is_right(part, exercise) for part, exercise in parts)


# Loss: where the smoothing goes, what is summed, and how it is written.


def write_loss(spread: str, reduction: str, form: str, log: str) -> Callable[..., Any]:
    """A right loss in one style."""

    def compute(logits: Tensor, targets: Tensor, pad_id: int, smoothing: float) -> Any:
        size = logits.size(-1)
        logits, targets = (logits.flatten(0, -2), targets.flatten()) if form == "flat" else (logits, targets)
        log_probs = (
            logits.log_softmax(-1)
            if log == "log_softmax"
            else (logits.exp() / logits.exp().sum(-1, keepdim=True)).log()
        )
        hit = log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        rest = log_probs.sum(-1) - (hit if spread == "others" else 0.0)
        each = -(1 - smoothing) * hit - smoothing / (size - (spread == "others")) * rest
        each = each.masked_fill(targets == pad_id, 0.0)
        return {"sum": each.sum(), "mean": each.sum() / (targets != pad_id).sum(), "none": each}[reduction]

    return compute


LOSSES = list(
    itertools.product(("all", "others"), ("sum", "mean", "none"), ("flat", "whole"), ("log_softmax", "by hand"))
)
LOSSES += LOSSES[:16]


def write_rate(minimum: str, counted: str) -> Callable[..., float]:
    """A right learning rate in one style."""
    smaller: Any = {"min": min, "numpy": np.minimum}.get(minimum)

    def compute(step: int, d_model: int = 512, warmup: int = 4000) -> Any:
        step = max(step, 1) if counted == "clamped" else step
        if step == 0:
            return 0.0
        if minimum == "cases":
            return (d_model * warmup) ** -0.5 * step / warmup if step < warmup else (d_model * step) ** -0.5
        return d_model**-0.5 * smaller(step**-0.5, step * warmup**-1.5)

    return compute


RATES = list(itertools.product(("min", "numpy", "cases"), ("clamped", "plain"))) * 3

# Five styles of each of the others.


def numpy_attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(mask == 0, -1e9, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def with_numpy_alone(function: Any) -> Any:
    """The function as a file defines it that imports NumPy and no PyTorch."""
    known = {"np": np, "numpy": np, "__builtins__": __builtins__}
    return type(function)(function.__code__, known, function.__name__, function.__defaults__)


def loops(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    mask = mask.expand(q.size(0), q.size(1), -1, -1)
    rows = []
    for b, h, i in itertools.product(range(q.size(0)), range(q.size(1)), range(q.size(2))):
        seen = [j for j in range(k.size(2)) if mask[b, h, i, j]]
        scores = torch.stack([q[b, h, i] @ k[b, h, j] for j in seen]) / q.size(-1) ** 0.5
        rows.append(scores.softmax(0) @ v[b, h, seen])
    return torch.stack(rows).view(*q.shape[:3], -1)


class AttentionModule(nn.Module):
    def forward(self, Q: Tensor, K: Tensor, V: Tensor, attn_mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(Q, K, V, attn_mask=attn_mask)


def heads_last(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.einsum(
        "bhlm,bmhd->blhd",
        (torch.einsum("blhd,bmhd->bhlm", q, k) / q.size(-1) ** 0.5).masked_fill(mask == 0, -1e9).softmax(-1),
        v,
    )


STYLES: dict[str, list[Any]] = {
    "attention": [
        pellucid.attention,
        F.scaled_dot_product_attention,
        with_numpy_alone(numpy_attention),
        loops,
        AttentionModule,
        heads_last,
        lambda q, k, v, mask: (q @ k.T / q.size(1) ** 0.5).masked_fill(mask == 0, LEAST).softmax(dim=1) @ v,
    ],
    "causal_mask": [
        pellucid.causal_mask,
        lambda n: torch.triu(torch.ones(n, n), diagonal=1).bool(),
        lambda size: np.tril(np.ones((1, size, size))),
        lambda seq_len, device: torch.full((seq_len, seq_len), -torch.inf, device=device).triu(1),
        lambda tgt: torch.ones(tgt.size(0), 1, tgt.size(1), tgt.size(1)).tril(),
        nn.Transformer.generate_square_subsequent_mask,
        lambda n: [[j <= i for j in range(n)] for i in range(n)],
    ],
    "padding_mask": [
        pellucid.padding_mask,
        lambda src, pad_idx: src == pad_idx,
        lambda seq: (seq == 0).float()[:, None, None, :],
        lambda seq_q, seq_k, pad: (seq_k != pad).unsqueeze(1).expand(-1, seq_q.size(1), -1),
        lambda lengths, max_len: torch.arange(max_len)[None, :] < lengths[:, None],
        lambda x, pad_id: torch.zeros(x.shape).masked_fill(x == pad_id, -torch.inf)[:, None, None],
    ],
    "positional_encoding": [
        pellucid.sinusoids,
        lambda d_model, max_len: compute_table({})[:max_len].numpy(),
        lambda seq_len, dim: compute_table({}).float().unsqueeze(0),
        type(
            "Added",
            (nn.Module,),
            {
                "__init__": lambda self, d_model, max_len=12: nn.Module.__init__(self),
                "forward": lambda self, x: x * x.size(-1) ** 0.5 + compute_table({})[: x.size(1)],
            },
        ),
        type(
            "SequenceFirst",
            (nn.Module,),
            {
                "__init__": lambda self, d_model, max_len=12: nn.Module.__init__(self),
                "forward": lambda self, x: x + compute_table({})[: x.size(0), None],
            },
        ),
        pellucid.SinusoidalPositions,
    ],
    "LayerNorm": [
        nn.LayerNorm,
        nn.LayerNorm(6),
        lambda x, gamma, beta, eps: F.layer_norm(x, x.shape[-1:], gamma, beta, eps),
        lambda x, eps=1e-5: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt(),
        lambda x, weight, bias: (
            weight * (x - x.mean(-1)[..., None]) / (x.std(-1, correction=0)[..., None] + 1e-6) + bias
        ),
    ],
    "MultiHeadAttention": [
        pellucid.MultiHeadAttention,
        pellucid.MultiHeadAttention(12, 3),
        *(Heads(12, 3, style) for style in HEADS[:3]),
    ],
}


@pytest.mark.parametrize("exercise", STYLES)
def test_five_styles_are_right(exercise: str) -> None:
    assert len(STYLES[exercise]) >= 5
    assert all(is_right(part, exercise) for part in STYLES[exercise])


# Layers.


class Layer(nn.Module):
    """An encoder's layer before or after its norms, with parts of its own."""

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attn = pellucid.MultiHeadAttention(d_model, nhead)
        self.linear1, self.linear2 = nn.Linear(d_model, dim_feedforward), nn.Linear(dim_feedforward, d_model)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(dropout)

    def forward(self, src: Tensor, src_mask: Tensor) -> Tensor:
        x = self.norm1(src + self.dropout(self.self_attn(src, mask=src_mask)))
        return self.norm2(x + self.linear2(self.dropout(F.relu(self.linear1(x)))))


class PreNormLayer(Layer):
    def forward(self, src: Tensor, src_mask: Tensor) -> Tensor:
        x = src + self.self_attn(self.norm1(src), mask=src_mask)
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class LinearLayer(Layer):
    def forward(self, src: Tensor, src_mask: Tensor) -> Tensor:
        x = self.norm1(src + self.self_attn(src, mask=src_mask))
        return self.norm2(x + self.linear2(self.linear1(x)))


class Decoding(nn.Module):
    """A decoder's layer, whose masks are named and ordered in another way."""

    def __init__(self, hidden_dim: int, n_heads: int, pf_dim: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.cross = (pellucid.MultiHeadAttention(hidden_dim, n_heads) for _ in range(2))
        self.ffn = nn.Sequential(nn.Linear(hidden_dim, pf_dim), nn.ReLU(), nn.Linear(pf_dim, hidden_dim))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden_dim) for _ in range(3))

    def forward(self, trg: Tensor, enc_src: Tensor, trg_mask: Tensor, src_mask: Tensor) -> Any:
        x = self.norms[0](trg + self.attention(trg, mask=trg_mask))
        x = self.norms[1](x + self.attend(x, enc_src, src_mask))
        return self.norms[2](x + self.ffn(x)), None

    def attend(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        return self.cross(x, memory, mask=mask)


@pytest.mark.parametrize(
    ("part", "exercise"), [(Layer, "EncoderLayer"), (PreNormLayer, "EncoderLayer"), (Decoding, "DecoderLayer")]
)
def test_layers_before_and_after_their_norms_are_right(part: Any, exercise: str) -> None:
    assert is_right(part, exercise)


def test_a_feed_forward_without_activation_is_named() -> None:
    assert check(LinearLayer, "EncoderLayer")[0].mistakes == ("feed-forward-linear",)


# Searches: over a function of a prefix, a model of batches, with and without an end.


def greedy_list(step: Any, bos: int, eos: int, max_length: int) -> list[int]:
    ids = [bos]
    while len(ids) <= max_length and (len(ids) == 1 or ids[-1] != eos):
        ids.append(int(step(ids).argmax()))
    return ids


def greedy_tensor(model: Any, src: Tensor, max_len: int, start_symbol: int, end_symbol: int) -> Tensor:
    ys = torch.full((1, 1), start_symbol)
    for _ in range(max_len):
        ys = torch.cat([ys, model(src, ys)[:, -1].argmax(-1, keepdim=True)], dim=1)
        if ys[0, -1] == end_symbol:
            break
    return ys


def greedy_last(step: Any, sos: int, eos: int, max_steps: int) -> list[int]:
    ids = torch.tensor([[sos]])
    for _ in range(max_steps):
        ids = torch.cat([ids, step(ids).topk(1).indices.view(1, 1)], dim=1)
        if ids[0, -1].item() == eos:
            return ids[0, 1:-1].tolist()
    return ids[0, 1:].tolist()


def beam_lists(step: Any, bos: int, eos: int, beam_size: int, max_length: int) -> list[int]:
    beams: list[tuple[float, list[int]]] = [(0.0, [bos])]
    for _ in range(max_length):
        grown: list[tuple[float, list[int]]] = []
        for score, ids in beams:
            if ids[-1] == eos:
                grown.append((score, ids))
                continue
            grown += [(score + value, [*ids, id]) for id, value in enumerate(step(ids).log_softmax(-1).tolist())]
        beams = sorted(grown, reverse=True)[:beam_size]
        if all(ids[-1] == eos for _, ids in beams):
            break
    return beams[0][1]


def beam_with_penalty(
    model: Any, src: Tensor, bos_id: int, eos_id: int, num_beams: int, max_len: int, length_penalty: float
) -> Any:
    beams: list[tuple[float, list[int]]] = [(0.0, [bos_id])]
    done: list[tuple[float, list[int]]] = []
    for _ in range(max_len):
        grown = []
        for score, ids in beams:
            log_probs = model(src, torch.tensor([ids]))[0, -1].log_softmax(-1)
            grown += [(score + log_probs[id].item(), [*ids, id]) for id in range(len(log_probs))]
        grown.sort(reverse=True)
        beams = []
        for score, ids in grown:
            if ids[-1] == eos_id:
                done.append((score / (len(ids) - 1) ** length_penalty, ids))
            else:
                beams.append((score, ids))
            if len(beams) == num_beams - len(done) or len(done) >= num_beams:
                break
        if not beams or len(done) >= num_beams:
            break
    return max(done)[1], max(done)[0]


@pytest.mark.parametrize(
    ("part", "exercise"),
    [
        (greedy_list, "greedy"),
        (greedy_tensor, "greedy"),
        (greedy_last, "greedy"),
        (beam_lists, "beam"),
        (beam_with_penalty, "beam"),
    ],
)
def test_searches_over_functions_and_models_are_right(part: Any, exercise: str) -> None:
    assert is_right(part, exercise)


# The reference itself agrees with Pellucid's modules, which other tests hold to the paper.


def test_the_reference_computes_as_the_library() -> None:
    q, k, v, mask = attention.make_inputs(4)
    expected = attention.attend(q, k, v, mask, {}, attention.H * attention.K)
    assert expected is not None
    torch.testing.assert_close(expected, pellucid.attention(q, k, v, mask))
    torch.testing.assert_close(compute_table({}), pellucid.sinusoids(12, 10).double(), rtol=1e-6, atol=1e-6)
    config = pellucid.TrainConfig(schedule="noam", warmup_steps=schedule.WARMUP, learning_rate=None)
    rates = [pellucid.learning_rate(step, config, schedule.D) for step in schedule.STEPS]
    torch.testing.assert_close(schedule.compute_rates({}), torch.tensor(rates, dtype=torch.float64))
    logits = torch.randn(2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[1, 2, 3], [4, 1, 0]])
    ours = loss.compute_loss(logits, targets, 0.1, "mean", "all", False, {})
    theirs = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0, label_smoothing=0.1)
    assert ours is not None
    torch.testing.assert_close(ours, theirs)
