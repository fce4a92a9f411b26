"""Attention flow: how much could come from each input, if each layer's attention were pipes of that width."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError
from pellucid.tracing.trace import Array

MOST_NODES = 400
"""(N + 1) L at most: of more, a row takes longer than somebody waits."""
LEAST = 1e-6
"""A path that is narrower is none."""

Capacities = npt.NDArray[np.float64]


def attention_flow(mixed: Array, row: int) -> Array:
    """The greatest flow from place `row` after the last layer to each input, (L,), 0 to 1.

    Args:
        mixed: (N, L, L), the weights of each layer's self-attention, its heads mixed into one.

    Source: Abnar and Zuidema, "Quantifying Attention Flow in Transformers" (2020), section 3: the places of a layer are
    nodes, (I + A_n) / 2 the capacities of the edges to the layer below, and each input in turn is the only sink. Each
    flow is found by adding the widest path that is left until none is (Ford and Fulkerson 1956), to 1e-6 a path.

    Raises DataError for a text that is too long for it, or a row that is not there.
    """
    layers, length, _ = mixed.shape
    if (layers + 1) * length > MOST_NODES:
        raise DataError(
            f"attention flow through {layers} layers is computed for at most {MOST_NODES // (layers + 1)} tokens, not "
            f"{length}",
            "use the rollout",
        )
    if not 0 <= row < length:
        raise DataError(f"`row` ({row}) must be in 0..{length - 1}")
    capacities = _capacities(mixed)
    flows = [_greatest_flow(capacities.copy(), layers * length + row, j) for j in range(length)]
    return np.array(flows, dtype=np.float32)


def _capacities(mixed: Array) -> Capacities:
    """Of the edges between all nodes, layer by layer from the input up: ((N + 1) L, (N + 1) L)."""
    layers, length, _ = mixed.shape
    found = np.zeros(((layers + 1) * length,) * 2)
    for n, weights in enumerate(mixed):
        below, here = slice(n * length, (n + 1) * length), slice((n + 1) * length, (n + 2) * length)
        found[here, below] = (np.eye(length) + weights) / 2
    return found


def _greatest_flow(left: Capacities, source: int, sink: int) -> float:
    """What flows from source to sink; `left` is used up."""
    total = 0.0
    while True:
        path, width = _widest_path(left, source, sink)
        if width < LEAST:
            return total
        for node, following in pairwise(path):
            left[node, following] -= width
            left[following, node] += width
        total += width


def _widest_path(left: Capacities, source: int, sink: int) -> tuple[list[int], float]:
    """The path whose narrowest edge is widest, found as shortest paths are (Dijkstra 1959)."""
    widths, before = np.zeros(len(left)), np.full(len(left), -1)
    open_ = np.ones(len(left), dtype=np.bool_)
    widths[source] = np.inf
    while True:
        node = int(np.argmax(np.where(open_, widths, -1)))
        if node == sink or widths[node] < LEAST:
            break
        open_[node] = False
        through = np.minimum(left[node], widths[node])
        better = open_ & (through > widths)
        widths[better], before[better] = through[better], node
    path = [sink]
    while before[path[0]] >= 0:
        path.insert(0, int(before[path[0]]))
    return path, float(widths[sink])
