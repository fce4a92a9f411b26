"""Computes five statistics that describe a head: how sharp it is, how far it looks, and where its weight goes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError
from pellucid.tracing.attention import Array, AttentionTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace

Sinks = npt.NDArray[np.bool_]

STATISTICS = ("entropy", "distance", "diagonality", "previous", "sink")


def statistics(attention: AttentionTrace, sinks: Sinks | None = None) -> dict[str, Array]:
    """Returns five statistics of every head, each (N, H), by their names in STATISTICS.

    w_ij is the weight of row i on column j, i in 0..L-1, j in 0..M-1. Each statistic is the mean over the rows for
    which it is defined; rows with nothing to attend to are left out, and the value is 0 if no row is left.

    - entropy: -sum_j w_ij ln w_ij, in nats. 0: all on one token; ln M: spread evenly.
    - distance: sum_j w_ij |i - j|, in tokens (Vig and Belinkov 2019, section 4.3). If rows and columns are different
      sequences, their indices are compared.
    - diagonality: 1 - sum_j w_ij |(i + 1/2) / L - (j + 1/2) / M|. 1: all on the diagonal from corner to corner, for any
      two lengths; about 2/3: spread evenly.
    - previous: w_i,i-1, over the rows with a column i - 1.
    - sink: sum of w_ij over the columns `sinks` (Xiao et al. 2023), over the rows that may also attend to other
      columns.

    Args:
        sinks: bool (M,), from make_sink_mask(); None: the first column only.

    Raises DataError if `sinks` does not have M entries.
    """
    length, columns = attention.size
    if sinks is None:
        sinks = np.arange(columns) == 0
    if sinks.shape != (columns,):
        raise DataError(f"`sinks` has the shape {sinks.shape}, but `{attention.name}` has {columns} columns")
    measure = _measures(length, columns, sinks)
    found = {name: np.zeros((attention.num_layers, attention.num_heads), np.float32) for name in STATISTICS}
    for layer, head in np.ndindex(attention.num_layers, attention.num_heads):
        for name, value in measure(attention.weights(layer, head), attention.mask).items():
            found[name][layer, head] = value
    return found


def make_sink_mask(tokens: Sequence[Token]) -> Sinks:
    """Returns the mask of attention sinks, bool (M,): the first token of a sequence and special tokens."""
    return np.array([place == 0 or token.special for place, token in enumerate(tokens)], dtype=np.bool_)


def row_entropy(weights: Array) -> Array:
    """Computes the entropy -sum_j w_ij ln w_ij of each row, in nats: (L, M) -> (L,)."""
    logs = np.log(np.maximum(weights, np.finfo(np.float32).tiny))
    entropy: Array = -np.einsum("ij,ij->i", weights, logs)
    return entropy


def _measures(
    length: int, columns: int, sinks: Sinks
) -> Callable[[Array, npt.NDArray[np.bool_] | None], dict[str, float]]:
    """Prepares the data that heads share, and returns the function that computes the statistics of one head."""
    rows, places = np.arange(length), np.arange(columns)
    steps = np.abs(rows[:, None] - places).astype(np.float32)  # (L, M)
    shares = np.abs((rows[:, None] + 0.5) / length - (places + 0.5) / columns).astype(np.float32)  # (L, M)
    with_previous = rows[1 : columns + 1]
    sink_places = np.flatnonzero(sinks)

    def measure(weights: Array, mask: npt.NDArray[np.bool_] | None) -> dict[str, float]:
        attends = weights.sum(axis=1) > 0  # (L,)
        free = attends if mask is None else attends & (mask & ~sinks).any(axis=1)
        return {
            "entropy": _mean(row_entropy(weights), attends),
            "distance": _mean(np.einsum("ij,ij->i", weights, steps), attends),
            "diagonality": _mean(1 - np.einsum("ij,ij->i", weights, shares), attends),
            "previous": _mean(weights[with_previous, with_previous - 1], attends[with_previous]),
            "sink": _mean(weights[:, sink_places].sum(axis=1), free),
        }

    return measure


def _mean(values: Array, of: npt.NDArray[np.bool_]) -> float:
    return float(values[of].mean()) if of.any() else 0.0


@dataclass(frozen=True, slots=True)
class HeadTable:
    """Holds the mean of each statistic over sentences, each with equal weight."""

    means: Mapping[str, Mapping[str, Array]]
    """By attention and statistic, (N, H) each."""
    sentences: int

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON-compatible data."""
        return {
            "format": "pellucid-heads/1",
            "sentences": self.sentences,
            "statistics": {
                attention: {name: values.round(6).tolist() for name, values in found.items()}
                for attention, found in self.means.items()
            },
        }

    def report(self, origin: str) -> str:
        """Returns a table for the terminal, with a row per head."""
        lines = [f"{'head':<30}" + "".join(f"{name:>13}" for name in STATISTICS)]
        for attention, found in self.means.items():
            for layer, head in np.ndindex(found[STATISTICS[0]].shape):
                values = "".join(f"{found[name][layer, head]:>13.3f}" for name in STATISTICS)
                lines.append(f"{f'{attention} layer {layer} head {head}':<30}{values}")
        return "\n".join([*lines, f"means over {self.sentences:,} sentences of {origin}"])


def compute_trace_statistics(trace: Trace) -> dict[str, dict[str, Array]]:
    """Returns statistics() of all attentions of a trace; sinks are the first and the special columns."""
    return {
        name: statistics(attention, make_sink_mask(trace.sequences[attention.keys]))
        for name, attention in trace.attentions.items()
        if not name.startswith("search.")
    }


def mean_statistics(traces: Iterable[Trace]) -> HeadTable:
    """Returns the means over traces of one model. Raises DataError without traces."""
    found = [compute_trace_statistics(trace) for trace in traces]
    if not found:
        raise DataError("no sentences to compute statistics of")
    means = {
        attention: {name: np.mean([one[attention][name] for one in found], axis=0) for name in STATISTICS}
        for attention in found[0]
    }
    return HeadTable(means, len(found))
