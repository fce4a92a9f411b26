"""The layout of a model's numbers for the compiled functions: sizes, tables of offsets, and the weights in one array.

It imports NumPy alone. weights.py fills it from a PyTorch model.
"""

from typing import Any, NamedTuple

import numpy as np

COLUMNS = 64
"""Rows of a buffer and columns of a matrix are padded to a multiple of this: no vector reaches into another row."""
FIRST_POSITIONS = 32
"""The positions of a cache at first; it doubles when they are used."""
ALIGNMENT = 64
"""Bytes: the line of a processor's cache."""
GAP = 16
"""The numbers from the beginning of a norm, which has its epsilon and 1 for the root mean square, to its weights."""

NO_LAYER: Any = np.int64(-1)
"""The layer to record, if none is."""
ZERO: Any = np.int64(0)
"""An offset. numba would compile a function anew for each literal number that it is called with."""
SET, ADD, RELU = map(np.int64, range(3))
"""The modes of a product: it writes its sums, adds them to the output, or writes their positive part."""

RELU_ACTIVATION, GELU, GELU_TANH, SILU = range(4)
ACTIVATIONS = {"relu": RELU_ACTIVATION, "gelu": GELU, "gelu_tanh": GELU_TANH, "silu": SILU}

# The columns of `Model.layers`: the offset of each weight of a layer, -1 if the layer has none.
(
    QKV, QKV_BIAS, OUT, OUT_BIAS, Q_NORM, K_NORM, SELF_NORM,
    CROSS_Q, CROSS_Q_BIAS, CROSS_KV, CROSS_KV_BIAS, CROSS_OUT, CROSS_OUT_BIAS, CROSS_Q_NORM, CROSS_K_NORM, CROSS_NORM,
    UP, UP_BIAS, GATE, GATE_BIAS, DOWN, DOWN_BIAS, FEED_FORWARD_NORM,
) = range(23)  # fmt: skip
OFFSETS = 23

# The places of `Model.others`.
SOURCE_NORM, TARGET_NORM, ENCODER_NORM, DECODER_NORM, VOCABULARY, VOCABULARY_BIAS = range(6)
OTHERS = 6
SOURCE_SCALE, TARGET_SCALE, FIRST = 0, 1, 16
"""The places of the factors of embeddings in `Model.weights`, and of the first weight."""


def align(numbers: Any) -> Any:
    """Returns a copy of an array (n,) of float32 that begins at a multiple of ALIGNMENT bytes."""
    space = np.empty(len(numbers) + ALIGNMENT // 4, np.float32)
    start = -space.ctypes.data % ALIGNMENT // 4
    aligned = space[start : start + len(numbers)]
    aligned[:] = numbers
    return aligned


class Sizes(NamedTuple):
    """The sizes of a model, and its variants as numbers."""

    d_model: int
    d_ff: int
    heads: int
    kv_heads: int
    width: int
    """The width of a head."""
    step: int
    """The numbers from head to head: the width, padded to whole vectors."""
    encoder_layers: int
    decoder_layers: int
    vocab_size: int
    norm_first: int
    activation: int


class Model(NamedTuple):
    """A model as arrays; a table that the model lacks has no rows."""

    sizes: Sizes
    weights: Any
    """(n,) all packed matrices, biases and norms."""
    layers: Any
    """(layers, OFFSETS) the encoder's layers, then the decoder's."""
    others: Any
    """(OTHERS,) offsets of the other weights."""
    source_table: Any
    """(V, D) the embeddings, as in the model; `target_table` likewise."""
    target_table: Any
    source_positions: Any
    """(positions, D) the vectors that are added; `target_positions` likewise."""
    target_positions: Any
    turn: Any
    """(positions, K) rotations of queries and keys: cosines, then sines."""
    source_bias: Any
    """(H, 2R + 1) The attention bias for relative positions (key - query) from -R to R."""
    target_bias: Any
    """(H, R + 1) the same from -R to 0."""
