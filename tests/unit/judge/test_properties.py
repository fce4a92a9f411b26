"""Parts that no variant explains: a property that fails is named with its first place, and none is invented."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.judge.check import check
from pellucid.judge.findings import Finding
from tests.unit.judge.planting import Feed, MeanAttention, causal_mask, make_file


@pytest.fixture(autouse=True)
def _without_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not change a judgement."""
    monkeypatch.setattr("pellucid.judge.check.SECONDS", 300.0)


def judge(part: Any, exercise: str, **others: Any) -> Finding:
    (finding,) = check(make_file(**{exercise: part}, **others), exercise)
    return finding


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float = 1.3) -> Tensor:
    """An attention with a scale that no post has: unknown, and all properties hold."""
    return (q @ k.mT / scale).masked_fill(~mask, -1e9).softmax(-1) @ v


def drop(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.dropout((q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~mask, -1e9).softmax(-1), 0.5) @ v


def leave_a_little(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (q @ k.mT / math.sqrt(q.size(-1)) - 2.0 * ~mask).softmax(-1) @ v


def forget_the_first(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    seen = mask.clone()
    seen[..., 0] = False
    return attend(q, k, v, seen)


def mix_sentences(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return attend(q, k, v - v.mean(0, keepdim=True) * 0.5, mask)


def mix_heads(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return attend(q, k + k.flip(1), v, mask) if k.dim() == 4 else 1 / torch.zeros(0)[1]


def weigh_less(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return attend(q, k, v, mask) * 0.37


def divide_by_zero(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    weights = (q @ k.mT).masked_fill(~mask, 0.0)
    return weights / (weights - weights) @ v


@pytest.mark.parametrize(
    ("part", "mistakes"),
    [
        (drop, ("property-repeatable",)),
        (leave_a_little, ("property-hidden",)),
        (forget_the_first, ("property-visible",)),
        (mix_sentences, ("property-batch", "property-weights")),
        (mix_heads, ("property-heads",)),
        (weigh_less, ("property-weights",)),
    ],
)
def test_a_property_of_attention(part: Any, mistakes: tuple[str, ...]) -> None:
    finding = judge(part, "attention", causal_mask=causal_mask)
    assert (finding.right, finding.mistakes) == (False, mistakes)
    assert all(place.startswith("[0, ") for place in finding.details)
    lines = finding.list_lines("ko")
    assert [line.split(": ")[1] for line in lines] == list(mistakes)


def test_the_place_is_the_first_that_differs() -> None:
    finding = judge(forget_the_first, "attention", causal_mask=causal_mask)
    assert finding.details == ("[0, 0, 0]",)
    finding = judge(weigh_less, "attention", causal_mask=causal_mask)
    assert finding.details == ("[0, 0, 0, 0]: 0.37 != 1",)


def test_numbers_that_are_not_finite_are_unknown_with_their_place() -> None:
    finding = judge(divide_by_zero, "attention", causal_mask=causal_mask)
    assert finding.is_unknown
    assert finding.details[0].startswith("[0, 0, 0, 0]: nan != ")


@pytest.mark.parametrize("others", [{}, {"causal_mask": causal_mask}])
def test_an_unknown_part_whose_properties_hold_stays_unknown(others: dict[str, Any]) -> None:
    assert judge(attend, "attention", **others).is_unknown


class Heads(nn.Module):
    """Several heads with a scale of its own."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.num_heads = num_heads

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            linear(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for linear, x in zip(self.maps, (q, k, v), strict=False)
        )
        output: Tensor = self.maps[3](self.attend(q, k, v, mask).transpose(1, 2).flatten(2))
        return output

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return attend(q, k, v, mask)


class LeakingHeads(Heads):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return leave_a_little(q, k, v, mask)


class MixingHeads(Heads):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return mix_sentences(q, k, v, mask)


@pytest.mark.slow
def test_several_heads() -> None:
    assert judge(Heads, "MultiHeadAttention", causal_mask=causal_mask).is_unknown
    leaking = judge(LeakingHeads, "MultiHeadAttention", causal_mask=causal_mask)
    assert leaking.mistakes == ("property-hidden",)
    assert leaking.details[0].startswith("[0, 0, 0]: ")
    assert judge(MixingHeads, "MultiHeadAttention", causal_mask=causal_mask).mistakes == ("property-batch",)


class Attention(MeanAttention):
    """A mean of the keys that the mask shows."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        seen = torch.ones(1, query.size(1), key.size(1)) if mask is None else mask.double()
        seen = (seen[:, 0] if seen.dim() == 4 else seen).expand(len(query), query.size(1), key.size(1))
        return self.q(query) + seen / seen.sum(-1, keepdim=True) @ self.v(value)


class EncoderLayer(nn.Module):
    """A layer with a residual of half the weight, which no variant has."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attention, self.feed, self.norm = Attention(d_model), Feed(d_model), nn.LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = 0.5 * x + self.attention(x, x, x, mask)
        return self.norm(x + self.feed(x))


class LeakingLayer(EncoderLayer):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(x + 0.1 * x.mean(1, keepdim=True), mask)


class DecoderLayer(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attention, self.cross = Attention(d_model), Attention(d_model)
        self.feed, self.norm = Feed(d_model), nn.LayerNorm(d_model)

    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        x = 0.5 * x + self.attention(x, x, x, tgt_mask)
        x = 0.5 * x + self.cross(x, memory, memory, src_mask)
        return self.norm(x + self.feed(x))


class DeafDecoderLayer(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        return super().forward(x, memory * 0, src_mask, tgt_mask)


class SeeingDecoderLayer(DecoderLayer):
    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        return super().forward(x + 0.1 * x.flip(1), memory, src_mask, tgt_mask)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "exercise", "mistakes"),
    [
        (EncoderLayer, "EncoderLayer", ("unknown",)),
        (LeakingLayer, "EncoderLayer", ("property-hidden",)),
        (DecoderLayer, "DecoderLayer", ("unknown",)),
        (DeafDecoderLayer, "DecoderLayer", ("property-visible",)),
        (SeeingDecoderLayer, "DecoderLayer", ("property-hidden",)),
    ],
)
def test_layers(layer: Any, exercise: str, mistakes: tuple[str, ...]) -> None:
    assert judge(layer, exercise).mistakes == mistakes


def test_a_norm_of_neighbours() -> None:
    def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        near = x + 0.5 * x.roll(1, dims=1)
        return F.layer_norm(near, x.shape[-1:]) * gamma + beta

    finding = judge(layer_norm, "LayerNorm")
    assert finding.mistakes == ("property-pointwise",)
    assert finding.details[0].startswith("[0, 0, 0]: ")
    assert judge(lambda x, gamma, beta: F.layer_norm(x, x.shape[-1:]) * gamma * 2, "LayerNorm").is_unknown
