"""Reads the parts of a layer by their names in a layout: attentions, norms, projections."""

import re
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from pellucid.errors import ConfigError
from pellucid.weights.tutorials.folding import one_block_a_head, unbiased_deviation
from pellucid.weights.tutorials.layouts import PYTORCH_TRANSFORMER, Layout, nearest_spelling
from pellucid.weights.tutorials.source import TutorialTensors


def infer_num_heads(tensors: Mapping[str, Tensor], layout: str) -> int | None:
    """Returns the number of heads that a layout's tensors show, or None if they do not show it."""
    if layout == PYTORCH_TRANSFORMER:
        return None
    spelling = nearest_spelling(layout, tensors)
    attention, names = spelling.first_attention, spelling.projections[:3]
    if "{head}" in names[0]:
        return count_parts(tensors, attention + names[0].partition("{head}")[0]) or None
    if not spelling.shared_by_heads or spelling.token_table not in tensors:
        return None
    width = tensors[spelling.token_table].size(-1)
    shared = {len(tensors[name]) for name in (f"{attention}{part}.weight" for part in names) if name in tensors}
    head_width = min(shared, default=width)
    return width // head_width if 0 < head_width < width and width % head_width == 0 else None


def count_parts(names: Iterable[str], before: str) -> int:
    """Returns the number of numbered parts: one more than the highest number after `before`.

    If most of these parts are missing, fewer are counted: enough to report the missing ones.
    """
    found = (re.match(rf"{re.escape(before)}(\d{{1,9}})", name) for name in names)
    numbers = {int(match[1]) for match in found if match}
    return min(max(numbers, default=-1) + 1, 2 * len(numbers) + 1)


def check_heads(num_heads: int, d_model: int) -> None:
    """Raises ConfigError for a number of heads that does not divide the width."""
    if not isinstance(num_heads, int) or num_heads < 1 or d_model % num_heads:
        allowed = [str(count) for count in range(1, d_model + 1) if d_model % count == 0]
        raise ConfigError(
            f"`num_heads` ({num_heads}) must divide the model's width ({d_model})",
            f"use the number of heads of its training, one of {', '.join(allowed)}",
        )


class Reader:
    """Reads modules by their names into `tensors`, by Pellucid's names, in double precision.

    Raises ConfigError for a number of heads that the tensors cannot have, and the CheckpointErrors of TutorialTensors.
    """

    def __init__(self, source: TutorialTensors, num_heads: int) -> None:
        self.source = source
        self.layout: Layout = nearest_spelling(source.layout, source.tensors)
        self.num_heads = num_heads
        self.tensors: dict[str, Tensor] = {}
        self.d_model: int = source.shape(self.layout.token_table, 2)[1]
        self.told_heads: int | None = infer_num_heads(source.tensors, source.layout)
        self._check_heads()
        self.has_bias: bool = not self.layout.biases_may_lack or self._finds_bias()
        self.has_qkv_bias: bool = self.has_bias and (self.layout.qkv_bias or self._finds_qkv_bias())
        self.turned: bool = self.layout.weight == "kernel" or self._is_turned()
        self.d_ff: int = self._inner_width()

    def read_part(self, ours: str, theirs: str) -> None:
        """Reads a part of a layer; its name determines its kind."""
        if ours.endswith("_attn"):
            self.read_attention(ours, theirs)
        elif ours.endswith("norm"):
            self.read_norm(ours, theirs)
        elif ours.endswith("up_proj"):
            self.read_linear(ours, theirs, self.d_ff, self.d_model)
        else:
            self.read_linear(ours, theirs, self.d_model, self.d_ff)

    def read_attention(self, ours: str, theirs: str) -> None:
        """Returns the three projections packed, and the output projection."""
        names = [f"{theirs}{self.layout.separator}{projection}" for projection in self.layout.projections]
        if self.layout.packed:
            self.read_linear(f"{ours}.qkv_proj", names[0], 3 * self.d_model, self.d_model, self.has_qkv_bias)
            self.read_linear(f"{ours}.out_proj", names[3], self.d_model, self.d_model)
            return
        parts = [self._projection(name) for name in names[:3]]
        if self.layout.scores_by_model_width:  # queries compensate: ours divide by sqrt(K)
            parts[0] = [part * self.num_heads**-0.5 for part in parts[0]]
        for leaf, *blocks in zip(("weight", "bias"), *parts, strict=False):
            self.tensors[f"{ours}.qkv_proj.{leaf}"] = torch.cat(blocks)
        self.read_linear(f"{ours}.out_proj", names[3], self.d_model, self.d_model)

    def _projection(self, name: str) -> list[Tensor]:
        """Returns the weight (D, D) and, if there is one, the bias (D,) of the queries, the keys or the values of all
        heads.
        """
        width = self.d_model // self.num_heads
        if "{head}" in name:
            heads = [
                self._linear(name.format(head=head), width, self.d_model, self.has_qkv_bias)
                for head in range(self.num_heads)
            ]
            return [torch.cat(parts) for parts in zip(*heads, strict=True)]
        if self.told_heads is None:
            return self._linear(name, self.d_model, self.d_model, self.has_qkv_bias)
        weight, *bias = self._linear(name, width, width, self.has_qkv_bias)
        return [one_block_a_head(weight, self.num_heads), *(part.repeat(self.num_heads) for part in bias)]

    def read_norm(self, ours: str, theirs: str) -> None:
        """Returns a layer norm's weight and bias."""
        leaves = self.layout.norm if self.has_bias else self.layout.norm[:1]
        weight, *bias = (self.source.take(f"{theirs}{self.layout.separator}{leaf}", self.d_model) for leaf in leaves)
        if self.layout.unbiased_norm:
            weight = weight / unbiased_deviation(self.d_model)
        self.tensors |= {
            f"{ours}.{leaf}": part for leaf, part in zip(("weight", "bias"), (weight, *bias), strict=False)
        }

    def read_linear(self, ours: str, theirs: str, rows: int, columns: int, has_bias: bool | None = None) -> None:
        """Returns a projection: weight (rows, columns), bias (rows,). `has_bias` None: as in all layers."""
        for leaf, tensor in zip(("weight", "bias"), self._linear(theirs, rows, columns, has_bias), strict=False):
            self.tensors[f"{ours}.{leaf}"] = tensor

    def _linear(self, theirs: str, rows: int, columns: int, has_bias: bool | None = None) -> list[Tensor]:
        weight, bias = (f"{theirs}{self.layout.separator}{leaf}" for leaf in (self.layout.weight, "bias"))
        has_bias = self.has_bias if has_bias is None else has_bias
        if self.turned:
            matrix = self.source.take(weight, columns, rows).t()
        else:
            matrix = self.source.take(weight, rows, columns)
        return [matrix, self.source.take(bias, rows)] if has_bias else [matrix]

    def _check_heads(self) -> None:
        check_heads(self.num_heads, self.d_model)
        if self.told_heads not in (None, self.num_heads):
            raise ConfigError(
                f"`num_heads` is {self.num_heads}, but the tensors have {self.told_heads} heads",
                f"use {self.told_heads}",
            )

    def _inner_width(self) -> int:
        name = f"{self.layout.first_inner}{self.layout.separator}{self.layout.weight}"
        return self.source.shape(name, 2)[1 if self.turned else 0]

    def _is_turned(self) -> bool:
        """Returns True if matrices are (in, out), as in transformers' Conv1D."""
        name = f"{self.layout.first_attention}{self.layout.projections[0]}.weight"
        turned = (self.d_model, 3 * self.d_model)
        return self.layout.packed and name in self.source and tuple(self.source.tensors[name].shape) == turned

    def _finds_bias(self) -> bool:
        return f"{self.layout.first_inner}{self.layout.separator}bias" in self.source.tensors

    def _finds_qkv_bias(self) -> bool:
        between = self.layout.separator
        ends = tuple(f"{between}{name}{between}bias" for name in self.layout.projections[:3])
        return any(name.endswith(ends) for name in self.source.tensors)
