"""Whether a trace holds together: shapes that fit its tokens, numbers that are numbers, a tree that is one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

import numpy as np
import numpy.typing as npt

from pellucid.config.decode import CEILINGS
from pellucid.errors import DataError, shown
from pellucid.tracing.trace import AttentionTrace, SearchTrace, Status, Token, Trace

ABOVE_ZERO = 1e-3
"""How far rounding may lift the logarithm of a probability."""
MOST_NATS = 1e9
"""Of a hypothesis: a million tokens of a thousand nats each. Beyond it, differences are no numbers any more."""
MOST_RANK = 1e150
"""Of a score over a power of a length."""
ROW_SUM = 1e-3
"""How far the sum of a row of ready-made weights may be from one."""


def check_trace(trace: Trace, origin: str, hint: str) -> None:
    """Raises DataError that begins with `origin` and says what does not fit, with the values."""
    for problem in _problems(trace):
        raise DataError(f"{origin}: {problem}", hint)


def _problems(trace: Trace) -> Iterator[str]:
    for name, tokens in trace.sequences.items():
        if beyond := sorted({token.segment for token in tokens} - {0, 1}):
            yield f"its sequence `{shown(name)}` has a token in the segment {shown(beyond[0])}; there are 0 and 1"
    for key, value in trace.model.items():
        if isinstance(value, float) and not np.isfinite(value):
            yield f"its model's `{shown(key)}` is {value}"
    for name, attention in trace.attentions.items():
        yield from (f"`{shown(name)}` {problem}" for problem in attention_problems(attention, trace.sequences))
        if attention.rotary_base is not None and not 0 < attention.rotary_base < np.inf:
            yield f"`{shown(name)}` has the `rotary_base` {attention.rotary_base}, which is no number above 0"
    if not np.isfinite(trace.faithfulness) or trace.faithfulness < 0:
        yield f"its `faithfulness` ({trace.faithfulness}) is no difference"
    if trace.search is not None:
        rows = len(trace.sequences.get("search", ()))
        yield from (f"its search {problem}" for problem in search_problems(trace.search, rows))


def attention_problems(attention: AttentionTrace, sequences: Mapping[str, Sequence[Token]]) -> Iterator[str]:
    """What is wrong with one attention; the caller puts its name before."""
    for side, name in (("rows", attention.queries), ("columns", attention.keys)):
        if name not in sequences:
            yield f"names its {side} by the sequence `{shown(name)}`, which is not there"
            return
    L, M = len(sequences[attention.queries]), len(sequences[attention.keys])
    yield from _shape_problems(attention, L, M)
    arrays: dict[str, npt.NDArray[np.float32] | None] = {
        "q": attention.q, "k": attention.k, "weights": attention.ready, "bias": attention.bias,
        "value_norms": attention.value_norms,
    }  # fmt: skip
    for name, array in arrays.items():
        if array is not None and not np.isfinite(array).all():
            count = int(np.count_nonzero(~np.isfinite(array)))
            yield f"has {count} numbers in `{name}` that are not finite"
    yield from _row_problems(attention)


def _shape_problems(attention: AttentionTrace, L: int, M: int) -> Iterator[str]:
    """What does not fit L rows and M columns."""
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
        yield f"has `q` of shape {q.shape} and `k` of shape {k.shape}, which do not belong together"
    if attention.mask is not None and attention.mask.shape != (L, M):
        yield f"has a mask of shape {attention.mask.shape}, not {(L, M)}"
    bias, norms = attention.bias, attention.value_norms
    if bias is not None and not (
        bias.ndim == 4 and bias.shape[0] in (1, N) and bias.shape[1] in (1, H) and bias.shape[2:] == (L, M)
    ):
        yield f"has a bias of shape {bias.shape}, not (1 or {N}, 1 or {H}, {L}, {M})"
    if norms is not None and norms.shape != (N, H, M):
        yield f"has value norms of shape {norms.shape}, not {(N, H, M)}"


def _row_problems(attention: AttentionTrace) -> Iterator[str]:
    """Ready-made weights are weights: none below zero, rows of one, or of zero where all is masked."""
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


def search_problems(search: SearchTrace, rows: int) -> Iterator[str]:
    """What is wrong with the tree of a search of so many rows."""
    if not 1 <= search.beam_size <= CEILINGS["beam_size"]:
        yield f"has the `beam_size` {shown(search.beam_size)}; it must be in 1..{CEILINGS['beam_size']:,}"
    if not abs(search.length_penalty) <= CEILINGS["length_penalty"]:
        most = CEILINGS["length_penalty"]
        yield f"has the `length_penalty` {search.length_penalty}; it must be in {-most}..{most}"
    if not search.nodes:
        yield "has no nodes"
    for place, node in enumerate(search.nodes):
        if (node.parent is None) != (place == 0):
            yield f"has a root at node {place}" if place else "does not begin with its root"
        elif node.parent is not None and not 0 <= node.parent < place:
            yield f"has node {place} before its parent {node.parent}"
        if not 0 <= node.row < rows:
            yield f"has node {place} in row {node.row}, but there are {rows} rows"
        if node.status not in get_args(Status):
            yield f"has node {place} with the status `{shown(node.status)}`; known are {', '.join(get_args(Status))}"
        for name, most in (("log_prob", MOST_NATS), ("score", MOST_NATS), ("ranked_by", MOST_RANK)):
            if not abs(value := getattr(node, name)) <= most:
                yield f"has node {place} with the `{name}` {value}, which is not finite or beyond {most:g}"
        if node.log_prob > ABOVE_ZERO:
            yield f"has node {place} with the `log_prob` {node.log_prob}: no probability is above 1"
