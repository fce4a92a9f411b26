"""Several heads as one."""

import numpy as np

from pellucid.errors import DataError
from pellucid.tracing.trace import Array, AttentionTrace


def all_weights(attention: AttentionTrace) -> Array:
    """The weights of every head, (N, H, L, M)."""
    if attention.ready is not None:
        return attention.ready
    heads = range(attention.num_heads)
    return np.stack([[attention.weights(layer, head) for head in heads] for layer in range(attention.num_layers)])


def mixed_weights(attention: AttentionTrace, layer: int | None = None, head: int | None = None) -> Array:
    """The weights of a head, (L, M); without `head` the mean of its layer's, without `layer`, too, that of all.

    Raises DataError for a head without a layer, or one that there is not.
    """
    if layer is None and head is not None:
        raise DataError(f"`head` ({head}) needs a `layer`", f"choose one in 0..{attention.num_layers - 1}")
    layers = range(attention.num_layers) if layer is None else [layer]
    heads = range(attention.num_heads) if head is None else [head]
    mean: Array = np.mean([attention.weights(n, h) for n in layers for h in heads], axis=0, dtype=np.float32)
    return mean
