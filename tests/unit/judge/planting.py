"""Wrong parts of the Transformer, made from the judge's reference by its choices, and files that hold them."""

import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.judge import heads
from pellucid.judge.variants import Axes, Choices, is_same, list_variants


def causal_mask(n: int) -> Tensor:
    """The mask that fixes True = may attend for the other parts of a file."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def make_file(**parts: Any) -> types.ModuleType:
    """A module of Python that defines these parts, as a learner's file does."""
    module = types.ModuleType("learner")
    for name, part in parts.items():
        setattr(module, name, part)
    return module


def group(
    axes: Axes, compute: Callable[[Choices], Any], same: Callable[[Any, Any], bool] = is_same
) -> Iterator[tuple[Choices, list[set[str]]]]:
    """Yields each choice of one or two mistakes that computes something else than the right one, with its right names.

    Where several choices compute the same, the names of those with the fewest mistakes are right.
    """
    outputs = [(choices, output) for choices in list_variants(axes) if (output := compute(choices)) is not None]
    for choices, output in outputs:
        alike = [other for other, theirs in outputs if same(output, theirs)]
        fewest = min(map(len, alike))
        if fewest:
            names = [{axes[axis][value] for axis, value in other.items()} for other in alike if len(other) == fewest]
            yield choices, names


class Heads(nn.Module):
    """Multi-head attention with wrong choices between its projections."""

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(heads.D, heads.D) for _ in range(4))
        self.choices = choices

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        joined = heads.compute_heads(self.q_proj(query), self.k_proj(key), self.v_proj(value), mask, self.choices)
        assert joined is not None
        output: Tensor = self.out_proj(joined)
        return output


class EncoderLayer(nn.Module):
    """A layer of attention, feed-forward and norms whose flow is written as an expression of the judge."""

    def __init__(self, flow: Any, width: int) -> None:
        super().__init__()
        self.attention = nn.ModuleList(MeanAttention(width) for _ in range(2))
        self.feed = nn.ModuleList([Feed(width)])
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.flow = flow

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.compute(self.flow, {"x": x, "src": mask})

    def compute(self, flow: Any, values: dict[str, Any]) -> Tensor:
        """The value of an expression."""
        key = repr(flow)
        if key not in values:
            values[key] = self._compute(flow, values)
        return values[key]

    def _compute(self, flow: Any, values: dict[str, Any]) -> Any:
        if isinstance(flow, str):
            return values[flow]
        kind, *rest = flow
        if kind == "sum":
            return torch.stack([self.compute(each, values) for each in rest]).sum(0)
        number, *inputs = rest
        if kind == "attention":
            q, k, v = (self.compute(each, values) for each in inputs[:3])
            return self.attention[number](q, k, v, values.get(inputs[3]))
        return (self.feed if kind == "feed-forward" else self.norm)[number](self.compute(inputs[0], values))


class DecoderLayer(EncoderLayer):
    """The same of a decoder."""

    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        return self.compute(self.flow, {"x": x, "memory": memory, "src": src_mask, "tgt": tgt_mask})


class Feed(nn.Module):
    """A feed-forward."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.outer(self.inner(x).relu())
        return output


class MeanAttention(nn.Module):
    """A part in the place of an attention: each query gets a mean of keys and values."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.q(query) * self.k(key).mean(1, keepdim=True) + self.v(value).mean(1, keepdim=True)
