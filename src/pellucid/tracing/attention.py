"""Stores the inputs of one kind of attention in all layers of a stack, and recomputes its weights from them.

Queries, keys, mask and bias are stored, which grow with the length of a text; weights would grow with its square.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from pellucid.errors import DataError, format_argument, format_value
from pellucid.tracing.tokens import Token

Array = npt.NDArray[np.float32]

ROW_SUM = 1e-3
"""The largest deviation from one of the sum of a row of ready-made weights."""


@dataclass(frozen=True, kw_only=True)
class AttentionTrace:
    """Holds one kind of attention in all layers of a stack.

    N layers, H heads, L queries, M keys, K the width of a head.
    """

    name: str
    """"encoder.self", "decoder.self", "cross", or "search.cross" for the steps of a search."""
    queries: str
    """The sequence whose tokens name the rows."""
    keys: str
    """The sequence whose tokens name the columns."""
    q: Array | None = None
    """(N, H, L, K), as attention() receives them: after rotary positions are applied."""
    k: Array | None = None
    """(N, Hkv, M, K); each key head is shared by H / Hkv neighboring query heads."""
    v: Array | None = None
    """(N, Hkv, M, K): the values; None in traces of version 1 and for weights of another library."""
    ready: Array | None = None
    """(N, H, L, M): ready-made weights of another library, which come without queries and keys."""
    mask: npt.NDArray[np.bool_] | None = None
    """(L, M), True = may attend; None: all."""
    bias: Array | None = None
    """The bias added to the scores, (1 or N, 1 or H, L, M)."""
    rotary_base: float | None = None
    """The base of rotary positions, with which the rotation of queries and keys can be undone if the trace's model has
    no `rotary_factor`."""
    value_norms: Array | None = None
    """(N, H, M): the norm of the vector that each key's value adds to the output, through the head's part of W^O."""

    def __repr__(self) -> str:
        kind = "given weights" if self.q is None else f"heads of width {self.head_width}"
        if self.num_kv_heads != self.num_heads:
            kind += f", {self.num_kv_heads} of keys"
        (rows, columns), masked = self.size, "" if self.mask is None else ", masked"
        return (
            f"AttentionTrace({self.name}: {self.num_layers} layers x {self.num_heads} heads, {rows} {self.queries} x "
            f"{columns} {self.keys}, {kind}{masked})"
        )

    def weights(self, layer: int, head: int) -> Array:
        """Returns the softmax of a head's scores, (L, M).

        Rows sum to one, or to zero if everything is masked. Raises DataError for a layer or a head that the attention
        does not have.
        """
        if self.ready is not None:
            self.check(layer, head)
            given: Array = self.ready[layer, head]
            return given
        scores = self.scores(layer, head)
        exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=np.finfo(np.float32).min))
        sums = exponentials.sum(axis=-1, keepdims=True)
        weights: Array = np.divide(exponentials, sums, out=np.zeros_like(exponentials), where=sums > 0)
        return weights

    def layer_weights(self, layer: int) -> Array:
        """Returns the weights of all heads of a layer at once, (H, L, M): the source of all views.

        They equal those of weights() up to rounding of the last digit. PyTorch computes a whole layer several times
        faster than numpy computes its heads one by one.
        """
        if self.q is None or self.k is None:
            return np.stack([self.weights(layer, head) for head in range(self.num_heads)]).astype(np.float32)
        q, k = (_tensor(part[layer]) for part in (self.q, self.k))
        k = k.repeat_interleave(q.size(0) // k.size(0), dim=0)  # (H, M, K)
        scores = torch.bmm(q * q.size(-1) ** -0.5, k.transpose(1, 2))  # (H, L, M)
        if self.bias is not None:
            scores += _tensor(self.bias[layer % len(self.bias)])
        if self.mask is None:
            return scores.softmax(dim=-1).numpy()
        mask = torch.from_numpy(self.mask.copy())
        scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=-1).mul_(mask.any(dim=-1, keepdim=True)).numpy()

    def scores(self, layer: int, head: int) -> Array:
        """Returns the softmax's input, (L, M): q k^T / sqrt(K) plus the bias, minus infinity where masked.

        Raises DataError for ready-made weights, which have no scores.
        """
        self.check(layer, head)
        if self.q is None or self.k is None:
            raise DataError(f"`{self.name}` was made from weights, and has no scores, queries or keys")
        q, k = self.q[layer, head], self.k[layer, head // (self.num_heads // self.num_kv_heads)]
        scores: Array = (q.astype(np.float32) * np.float32(self.head_width**-0.5)) @ k.astype(np.float32).T
        if self.bias is not None:
            scores = scores + self.bias[layer % self.bias.shape[0], head % self.bias.shape[1]]
        return scores if self.mask is None else np.where(self.mask, scores, np.float32(-np.inf))

    @property
    def num_layers(self) -> int:
        """Returns N."""
        return self._shape[0]

    @property
    def num_heads(self) -> int:
        """Returns H."""
        return self._shape[1]

    @property
    def num_kv_heads(self) -> int:
        """Returns Hkv; the number of query heads if it is unknown."""
        return self.num_heads if self.k is None else self.k.shape[1]

    @property
    def head_width(self) -> int:
        """Returns K; 0 for ready-made weights."""
        return 0 if self.q is None else self.q.shape[3]

    @property
    def size(self) -> tuple[int, int]:
        """Returns L and M."""
        keys = self._shape[3] if self.k is None else self.k.shape[2]
        return self._shape[2], keys

    @property
    def _shape(self) -> tuple[int, ...]:
        recorded = self.ready if self.q is None else self.q
        assert recorded is not None, "there are queries and keys, or weights"
        return tuple(recorded.shape)

    def check(self, layer: int, head: int = 0) -> None:
        """Raises DataError for a layer or a head that the attention does not have."""
        for what, number, count in (("layer", layer, self.num_layers), ("head", head, self.num_heads)):
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 <= number < count:
                raise DataError(
                    f"{format_argument(what, number)} of `{self.name}` must be in 0..{count - 1}",
                    f"it has {count} {what}{'s' * (count > 1)}, counted from 0",
                )


def _tensor(array: Array) -> torch.Tensor:
    """Copies an array: arrays of a trace file are read-only, for which torch warns."""
    return torch.from_numpy(np.array(array, np.float32))


def attention_problems(attention: AttentionTrace, sequences: Mapping[str, Sequence[Token]]) -> Iterator[str]:
    """Yields the inconsistencies of an attention between these sequences; the caller prefixes its name."""
    for side, name in (("rows", attention.queries), ("columns", attention.keys)):
        if name not in sequences:
            yield f"names its {side} by the sequence `{format_value(name)}`, which does not exist"
            return
    L, M = len(sequences[attention.queries]), len(sequences[attention.keys])
    yield from _shape_problems(attention, L, M)
    arrays: dict[str, npt.NDArray[np.float32] | None] = {
        "q": attention.q, "k": attention.k, "weights": attention.ready, "bias": attention.bias,
        "value_norms": attention.value_norms, "v": attention.v,
    }  # fmt: skip
    for name, array in arrays.items():
        if array is not None and not np.isfinite(array).all():
            count = int(np.count_nonzero(~np.isfinite(array)))
            yield f"has {count} values in `{name}` that are not finite"
    yield from _row_problems(attention)


def _shape_problems(attention: AttentionTrace, L: int, M: int) -> Iterator[str]:
    """Yields the shapes that do not match L rows and M columns."""
    q, k, ready = attention.q, attention.k, attention.ready
    if (q is None) != (k is None) or (q is None) == (ready is None):
        yield "must have either `q` and `k`, or `weights`"
        return
    given = q if q is not None else ready
    if given is None or given.ndim != 4 or 0 in given.shape:
        shape = () if given is None else given.shape
        yield f"has {'q' if q is not None else 'weights'} of shape {shape}, not (N, H, L, ...)"
        return
    N, H = given.shape[:2]
    if given.shape[2] != L:
        yield f"has {given.shape[2]} rows, but `{attention.queries}` has {L} tokens"
    columns = given.shape[3] if k is None else k.shape[2] if k.ndim == 4 else -1
    if columns != M:
        yield f"has {columns} columns, but `{attention.keys}` has {M} tokens"
    if (
        q is not None
        and k is not None
        and (k.ndim != 4 or k.shape[0] != N or H % k.shape[1] or k.shape[3] != q.shape[3])
    ):
        yield f"has `q` of shape {q.shape} and `k` of shape {k.shape}, which do not match"
    if attention.mask is not None and attention.mask.shape != (L, M):
        yield f"has a mask of shape {attention.mask.shape}, not {(L, M)}"
    if attention.v is not None and (k is None or attention.v.ndim != 4 or attention.v.shape[:3] != k.shape[:3]):
        keys = "no keys" if k is None else f"keys of shape {k.shape}"
        yield f"has values of shape {attention.v.shape}, which do not match {keys}"
    bias, norms = attention.bias, attention.value_norms
    if bias is not None and not (
        bias.ndim == 4 and bias.shape[0] in (1, N) and bias.shape[1] in (1, H) and bias.shape[2:] == (L, M)
    ):
        yield f"has a bias of shape {bias.shape}, not (1 or {N}, 1 or {H}, {L}, {M})"
    if norms is not None and norms.shape != (N, H, M):
        yield f"has value norms of shape {norms.shape}, not {(N, H, M)}"


def _row_problems(attention: AttentionTrace) -> Iterator[str]:
    """Yields the defects of ready-made weights: rows must sum to one, or to zero where all is masked."""
    if attention.ready is None:
        return
    if attention.ready.min() < 0:
        yield f"has a weight below 0 ({attention.ready.min():.3g})"
    sums = attention.ready.sum(axis=-1, dtype=np.float64)
    wrong = (np.abs(sums - 1) > ROW_SUM) & (np.abs(sums) > ROW_SUM)
    if wrong.any():
        layer, head, row = (int(place[0]) for place in np.nonzero(wrong))
        place = f"row {row} of layer {layer}, head {head}"
        yield f"has weights that do not sum to 1: {place} sums to {sums[layer, head, row]:.4g}"
