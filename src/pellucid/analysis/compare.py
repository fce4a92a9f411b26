"""Compares two attentions: of two checkpoints on the same text, of two texts of equal length, or of two heads."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError
from pellucid.tracing.attention import Array, AttentionTrace
from pellucid.tracing.trace import Trace


@dataclass(frozen=True)
class Compared:
    """Holds attentions A and B of one kind, of equal shape."""

    a: AttentionTrace
    b: AttentionTrace

    def difference(self, layer: int, head: int) -> Array:
        """Computes A - B for a head, (L, M), from -1 to 1."""
        difference: Array = self.a.weights(layer, head) - self.b.weights(layer, head)
        return difference

    def distances(self) -> Array:
        """Computes the distance of each head of A from the same head of B, (N, H): the mean of row_distances()."""
        found = np.zeros((self.a.num_layers, self.a.num_heads), np.float32)
        for layer, head in np.ndindex(*found.shape):
            found[layer, head] = row_distances(self.a.weights(layer, head), self.b.weights(layer, head)).mean()
        return found


def compare(a: Trace, b: Trace) -> dict[str, Compared]:
    """Pairs the attentions that both traces have, by name. Tokens may differ: texts of equal length can be compared.

    Raises DataError if the traces have no attention in common, or a common one differs in shape.
    """
    names = [name for name in a.attentions if name in b.attentions]
    if not names:
        raise DataError(
            f"nothing to compare: one trace has {', '.join(a) or 'no attention'}, the other "
            f"{', '.join(b) or 'no attention'}"
        )
    return {name: compare_attentions(a[name], b[name]) for name in names}


def compare_attentions(a: AttentionTrace, b: AttentionTrace) -> Compared:
    """Pairs two attentions. Raises DataError if they differ in the number of layers, heads, rows or columns."""
    shapes = [(x.num_layers, x.num_heads, *x.size) for x in (a, b)]
    if shapes[0] != shapes[1]:
        kinds = ("layers", "heads", "rows", "columns")
        parts = [f"{x} and {y} {kind}" for x, y, kind in zip(*shapes, kinds, strict=True) if x != y]
        raise DataError(
            f"`{a.name}` and `{b.name}` cannot be compared: they have {', '.join(parts)}",
            "trace both models on the same text, or texts of as many tokens",
        )
    return Compared(a, b)


def row_distances(a: Array, b: Array) -> Array:
    """Computes the Jensen-Shannon distance of each row, 0 to 1: two of (L, M) -> (L,).

    sqrt(JSD), JSD = H(m) - (H(a) + H(b)) / 2 in bits, m = (a + b) / 2 (Endres and Schindelin 2003): 0 for equal rows, 1
    for rows without a common column of positive weight. The distance is 0 between two rows of zeros, where all is
    masked, and 1/√2 between a row of zeros and any other.
    """
    first, second = a.astype(np.float64), b.astype(np.float64)  # small differences of near numbers are taken
    divergence = _bits((first + second) / 2) - (_bits(first) + _bits(second)) / 2
    distances: Array = np.sqrt(divergence.clip(0, 1)).astype(np.float32)
    return distances


def _bits(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Computes the entropy of each row in bits."""
    entropy: npt.NDArray[np.float64] = -(weights * np.log2(np.where(weights > 0, weights, 1))).sum(axis=-1)
    return entropy
