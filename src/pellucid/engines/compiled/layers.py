"""The parts of a Transformer's pass over rows, as compiled functions: products, norms, heads, attention, activations.

A row is the vector of one token. All arrays are flat, of single precision; a row r begins at `offset + r * width`,
where the width of a buffer is padded to a multiple of COLUMNS. `w` holds all packed weights, and the numbers of a layer
in `layers` are offsets in it (weights.py). Rows are computed one by one or, in products, in tiles that do not mix rows.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from pellucid.engines.compiled.layout import (
    ADD,
    COLUMNS,
    GAP,
    GELU,
    GELU_TANH,
    RELU,
    RELU_ACTIVATION,
    SET,
    SILU,
    ZERO,
)
from pellucid.engines.compiled.vectors import (
    LANES,
    TILE,
    block_1,
    block_2,
    block_3,
    block_4,
    block_5,
    block_6,
    dots_1,
    dots_2,
    dots_4,
    reinterpret_bits,
    weighted_1,
    weighted_2,
    weighted_4,
)

Array = Any
"""A NumPy array, which numba compiles for the dtype and the dimensions of its caller."""
Float = Any
"""A number in single precision."""
fast: Any = njit(fastmath={"nsz", "arcp", "contract", "afn", "reassoc"}, error_model="numpy", nogil=True)
"""Compiles loops of one row, whose sums may go in another order than as written: the same for each row."""
exact: Any = njit(error_model="numpy", nogil=True)
"""Compiles functions that compute in the order in which they are written."""

FEED_FORWARD_ROWS = 48
"""The rows that pass the feed-forward network together: their inner states stay in a core's cache."""


@exact
def pad_size(size: int) -> int:
    """Returns the width of a buffer for rows of `size` numbers."""
    return (size + COLUMNS - 1) // COLUMNS * COLUMNS


@exact
def product(
    x: Array, xo: int, ldx: int, rows: int, w: Array, wo: int, bo: int, size: int, columns: int, y: Array, yo: int,
    ldy: int, mode: int,
) -> None:  # fmt: skip
    """Writes or adds x W^T + b: rows of `size` numbers -> rows of `columns`, as `mode` says."""
    for panel in range(pad_size(columns) // TILE):
        at, bias, r = wo + panel * size * TILE, bo + panel * TILE, 0
        source, target = xo, yo + panel * TILE
        while r + 6 <= rows:
            block_6(x, source, ldx, w, at, size, bias, y, target, ldy, mode)
            source += 6 * ldx
            target += 6 * ldy
            r += 6
        left = rows - r
        if left == 1:
            block_1(x, source, ldx, w, at, size, bias, y, target, ldy, mode)
        elif left == 2:
            block_2(x, source, ldx, w, at, size, bias, y, target, ldy, mode)
        elif left == 3:
            block_3(x, source, ldx, w, at, size, bias, y, target, ldy, mode)
        elif left == 4:
            block_4(x, source, ldx, w, at, size, bias, y, target, ldy, mode)
        elif left == 5:
            block_5(x, source, ldx, w, at, size, bias, y, target, ldy, mode)


@fast
def exp32(x: Float) -> Float:
    """Returns e^x with a relative error of about 2e-7; for x below -87 about 1e-38, above 88 about 1e38."""
    x = np.float32(-87.0) if x < np.float32(-87.0) else x
    x = np.float32(88.0) if x > np.float32(88.0) else x
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - n * np.float32(0.693359375)
    r = r - n * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1.0)
    return p * reinterpret_bits((np.int32(n) + np.int32(127)) << np.int32(23))


@fast
def erf32(x: Float) -> Float:
    """Returns the error function with an error of a few units in the last digit: a ratio of polynomials."""
    x = min(max(x, np.float32(-4.0)), np.float32(4.0))
    z = x * x
    p = np.float32(-2.72614225801306e-10)
    p = p * z + np.float32(2.77068142495902e-08)
    p = p * z + np.float32(-2.10102402082508e-06)
    p = p * z + np.float32(-5.69250639462346e-05)
    p = p * z + np.float32(-7.34990630326855e-04)
    p = p * z + np.float32(-2.95459980854025e-03)
    p = p * z + np.float32(-1.60960333262415e-02)
    q = np.float32(-1.45660718464996e-05)
    q = q * z + np.float32(-2.13374055278905e-04)
    q = q * z + np.float32(-1.68282697438203e-03)
    q = q * z + np.float32(-7.37332916720468e-03)
    q = q * z + np.float32(-1.42647390514189e-02)
    return x * p / q


@fast
def activate(row: Array, kind: int) -> None:
    """Applies an activation to a row, in place."""
    if kind == GELU:
        for c in range(len(row)):
            row[c] = np.float32(0.5) * row[c] * (np.float32(1.0) + erf32(row[c] * np.float32(0.7071067811865476)))
    elif kind == GELU_TANH:
        for c in range(len(row)):
            x = row[c]
            y = np.float32(0.7978845608028654) * (x + np.float32(0.044715) * x * x * x)
            row[c] = x - x / (exp32(np.float32(2.0) * y) + np.float32(1.0))
    elif kind == SILU:
        for c in range(len(row)):
            row[c] = row[c] / (np.float32(1.0) + exp32(-row[c]))
    else:
        for c in range(len(row)):
            row[c] = max(row[c], np.float32(0.0))


@fast
def multiply(row: Array, other: Array) -> None:
    """Multiplies a row by another one, in place."""
    for c in range(len(row)):
        row[c] *= other[c]


@fast
def norm_row(x: Array, y: Array, w: Array, norm: int, factor: Float) -> None:
    """Writes the norm of a row times a factor; `norm` is its offset, x and y may be one row."""
    size = len(x)
    eps, is_rms = w[norm], w[norm + 1] != 0
    weight = w[norm + GAP : norm + GAP + size]
    mean = np.float32(0.0)
    if not is_rms:
        for c in range(size):
            mean += x[c]
        mean /= np.float32(size)
    squares = np.float32(0.0)
    for c in range(size):
        squares += (x[c] - mean) * (x[c] - mean)
    scale = np.float32(1.0) / np.sqrt(squares / np.float32(size) + eps)
    if is_rms:
        for c in range(size):
            y[c] = x[c] * scale * weight[c] * factor
    else:
        bias = w[norm + GAP + pad_size(size) : norm + GAP + pad_size(size) + size]
        for c in range(size):
            y[c] = ((x[c] - mean) * scale * weight[c] + bias[c]) * factor


@exact
def norm_rows(x: Array, rows: int, size: int, w: Array, norm: int, y: Array) -> None:
    """Writes the norm of each of the rows of x to y, which may be x."""
    width = pad_size(size)
    for r in range(rows):
        at = r * width
        norm_row(x[at : at + size], y[at : at + size], w, norm, np.float32(1.0))


@fast
def rotate(head: Array, turn: Array) -> None:
    """Rotates a head by the angles of a position: `turn` has the cosines of its half, then the sines."""
    half = len(head) // 2
    for c in range(half):
        first, second = head[c], head[half + c]
        head[c] = first * turn[c] - second * turn[half + c]
        head[half + c] = second * turn[c] + first * turn[half + c]


@fast
def scale_row(row: Array, factor: Float) -> None:
    """Multiplies a row by a number, in place."""
    for c in range(len(row)):
        row[c] *= factor


@exact
def prepare_heads(
    x: Array, xo: int, ldx: int, rows: int, heads: int, width: int, step: int, w: Array, norm: int, turn: Array,
    place: Array, factor: Float,
) -> None:  # fmt: skip
    """Normalizes and rotates heads in place, and multiplies them by a factor.

    Args:
        xo, ldx, step: the offset of the first head of the first row, and the numbers from row to row and head to head.
        norm: the offset of the norm of a head, or -1.
        turn: (positions, width) the rotations; without rows: none. `place` (rows,): the rows' positions.
    """
    if norm < 0 and len(turn) == 0 and factor == np.float32(1.0):
        return
    for r in range(rows):
        for h in range(heads):
            at = xo + r * ldx + h * step
            head = x[at : at + width]
            if norm >= 0:
                norm_row(head, head, w, norm, np.float32(1.0))
            if len(turn) > 0:
                rotate(head, turn[place[r]])
            scale_row(head, factor)


@fast
def softmax(p: Array, n: int) -> None:
    """Replaces the first n numbers by their softmax, in whole blocks of 16, for which p has room."""
    whole = (n + 15) // 16 * 16
    for j in range(n, whole):
        p[j] = np.float32(-1e30)
    largest = p[0]
    for j in range(whole):
        largest = max(largest, p[j])
    total = np.float32(0.0)
    for j in range(whole):
        e = exp32(p[j] - largest)
        p[j] = e
        total += e
    total = np.float32(1.0) / total
    for j in range(whole):
        p[j] *= total


@exact
def dot_keys(
    q: Array, query: int, step: int, kv: Array, index: Array, key: int, n: int, p: Array
) -> None:  # fmt: skip
    """Writes the dot products of a query with n keys, each at `key` in its row of `kv`, to p."""
    c = 0
    while c + 4 * LANES <= step:
        dots_4(q, query + c, kv, index, key + c, n, p, c)
        c += 4 * LANES
    if c + 2 * LANES <= step:
        dots_2(q, query + c, kv, index, key + c, n, p, c)
        c += 2 * LANES
    if c < step:
        dots_1(q, query + c, kv, index, key + c, n, p, c)


@exact
def attend(
    q: Array, qo: int, heads: int, kv_heads: int, step: int, kv: Array, index: Array, n: int, keys: int, values: int,
    bias: Array, distance: int, out: Array, oo: int, p: Array,
) -> None:  # fmt: skip
    """Writes the attention of one row, whose queries are scaled: all heads, over n > 0 keys.

    Args:
        q, qo: the first query; heads are `step` numbers apart, a multiple of LANES.
        index: the offset in `kv` of each key's row, whose heads of keys begin at `keys`, of values at `values`.
        bias: (heads, distances) a number for each head and distance, added to scores; without rows: none.
        distance: the column of `bias` of the first key; each further key is one column further, within the table.
    """
    shared = heads // kv_heads
    for h in range(heads):
        value = values + h // shared * step
        dot_keys(q, qo + h * step, step, kv, index, keys + h // shared * step, n, p)
        if len(bias) > 0:
            last = bias.shape[1] - 1
            for j in range(n):
                p[j] += bias[h, min(max(distance + j, 0), last)]
        softmax(p, n)
        target, c = oo + h * step, 0
        while c + 4 * LANES <= step:
            weighted_4(p, n, kv, index, value + c, out, target + c)
            c += 4 * LANES
        if c + 2 * LANES <= step:
            weighted_2(p, n, kv, index, value + c, out, target + c)
            c += 2 * LANES
        if c < step:
            weighted_1(p, n, kv, index, value + c, out, target + c)


@fast
def write_embedding(x: Array, token: Array, scale: Float) -> None:
    """Writes the embedding of a token times a number."""
    for c in range(len(x)):
        x[c] = token[c] * scale


@fast
def add_row(x: Array, other: Array) -> None:
    """Adds a row to another one, in place."""
    for c in range(len(x)):
        x[c] += other[c]


@exact
def embed(ids: Array, place: Array, rows: int, table: Array, positions: Array, scale: Float, x: Array) -> None:
    """Writes the embedding of each row's token, times a number, plus the vector of its position, if there are any."""
    size = table.shape[1]
    width = pad_size(size)
    for r in range(rows):
        row = x[r * width : r * width + size]
        write_embedding(row, table[ids[r]], scale)
        if len(positions) > 0:
            add_row(row, positions[place[r]])


@exact
def add_feed_forward(
    source: Array, rows: int, d_model: int, d_ff: int, kind: int, w: Array, gate: int, gate_bias: int, up: int,
    up_bias: int, down: int, down_bias: int, x: Array, inner: Array, gated: Array,
) -> None:  # fmt: skip
    """Adds the feed-forward network of `source` to x. `inner` and `gated` have room for FEED_FORWARD_ROWS."""
    width, wide = pad_size(d_model), pad_size(d_ff)
    for first in range(0, rows, FEED_FORWARD_ROWS):
        count = min(FEED_FORWARD_ROWS, rows - first)
        at = first * width
        has_relu = gate < 0 and kind == RELU_ACTIVATION
        mode = RELU if has_relu else SET
        product(source, at, width, count, w, up, up_bias, d_model, d_ff, inner, ZERO, wide, mode)
        if gate >= 0:
            product(source, at, width, count, w, gate, gate_bias, d_model, d_ff, gated, ZERO, wide, SET)
            for r in range(count):
                row = gated[r * wide : r * wide + d_ff]
                activate(row, kind)
                multiply(inner[r * wide : r * wide + d_ff], row)
        elif not has_relu:
            for r in range(count):
                activate(inner[r * wide : r * wide + d_ff], kind)
        product(inner, ZERO, wide, count, w, down, down_bias, d_ff, d_model, x, at, width, ADD)


@fast
def find_largest(z: Array, classes: Array) -> Float:
    """Returns the largest number of z (n, COLUMNS), and in `classes` that of each column; NaN if one is NaN."""
    for c in range(COLUMNS):
        classes[c] = z[0, c]
    odd = np.int32(0)
    for c in range(COLUMNS):
        odd |= np.int32(z[0, c] != z[0, c])
    for j in range(1, len(z)):
        for c in range(COLUMNS):
            odd |= np.int32(z[j, c] != z[j, c])
            classes[c] = max(classes[c], z[j, c])
    largest = classes[0]
    for c in range(1, COLUMNS):
        largest = max(largest, classes[c])
    return np.float32(np.nan) if odd else largest


@fast
def sum_of_exponentials(z: Array, largest: Float) -> Float:
    """Returns the sum of exp(z - largest)."""
    total = np.float32(0.0)
    for c in range(len(z)):
        total += exp32(z[c] - largest)
    return total


@exact
def log_sum(z: Array, largest: Float) -> Float:
    """Returns the logarithm of the sum of the exponentials of z, whose largest number is given."""
    return np.float32(largest + np.float32(math.log(sum_of_exponentials(z, largest))))
