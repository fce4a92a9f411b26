"""The pass of the encoder, and a step of the decoder, over ragged rows: no padding, no masks.

A sentence's keys and values stay where they were written. In the cache a step of a hypothesis has a place, (sentence,
position, hypothesis), and `ancestors` names for each hypothesis and position the hypothesis that it descends from.
"""

import numpy as np

from pellucid.engines.compiled.layers import (
    FEED_FORWARD_ROWS,
    Array,
    add_feed_forward,
    attend,
    dot_keys,
    embed,
    exact,
    find_largest,
    log_sum,
    norm_rows,
    pad_size,
    prepare_heads,
    product,
    softmax,
)
from pellucid.engines.compiled.layout import (
    ADD,
    COLUMNS,
    CROSS_K_NORM,
    CROSS_KV,
    CROSS_KV_BIAS,
    CROSS_NORM,
    CROSS_OUT,
    CROSS_OUT_BIAS,
    CROSS_Q,
    CROSS_Q_BIAS,
    CROSS_Q_NORM,
    DECODER_NORM,
    DOWN,
    DOWN_BIAS,
    ENCODER_NORM,
    FEED_FORWARD_NORM,
    GATE,
    GATE_BIAS,
    K_NORM,
    OUT,
    OUT_BIAS,
    Q_NORM,
    QKV,
    QKV_BIAS,
    SELF_NORM,
    SET,
    SOURCE_NORM,
    SOURCE_SCALE,
    TARGET_NORM,
    TARGET_SCALE,
    UP,
    UP_BIAS,
    VOCABULARY,
    VOCABULARY_BIAS,
    ZERO,
    Model,
)

CHUNK = 24
"""The rows whose logits exist at a time."""


@exact
def encode(model: Model, ids: Array, starts: Array) -> Array:
    """Encodes sources: returns the keys and values of the memory for each decoder layer, (decoder layers, N, width).

    Args:
        ids: (N,) the tokens of all sources, one source after the other.
        starts: (B + 1,) where each begins; the last is N.
    """
    s, w = model.sizes, model.weights
    N, queries, keys = len(ids), s.heads * s.step, s.kv_heads * s.step
    packed = queries + 2 * keys
    width, wide, joined, of_memory = pad_size(s.d_model), pad_size(packed), pad_size(queries), pad_size(2 * keys)
    x, h = np.empty(N * width, np.float32), np.empty(N * width, np.float32)
    qkv, output = np.empty(N * wide, np.float32), np.empty(N * joined, np.float32)
    inner = np.empty(FEED_FORWARD_ROWS * pad_size(s.d_ff), np.float32)
    gated = np.empty(FEED_FORWARD_ROWS * pad_size(s.d_ff), np.float32)
    longest, place = 0, np.empty(N, np.int64)
    for b in range(len(starts) - 1):
        longest = max(longest, starts[b + 1] - starts[b])
        for i in range(starts[b], starts[b + 1]):
            place[i] = i - starts[b]
    p, index = np.empty(longest + 16, np.float32), np.empty(longest, np.int64)
    one, scale, reach = np.float32(1.0), np.float32(s.width**-0.5), model.source_bias.shape[1] // 2
    embed(ids, place, N, model.source_table, model.source_positions, w[SOURCE_SCALE], x)
    if model.others[SOURCE_NORM] >= 0:
        norm_rows(x, N, s.d_model, w, model.others[SOURCE_NORM], x)
    for layer in range(s.encoder_layers):
        of = model.layers[layer]
        given = x
        if s.norm_first:
            norm_rows(x, N, s.d_model, w, of[SELF_NORM], h)
            given = h
        product(given, ZERO, width, N, w, of[QKV], of[QKV_BIAS], s.d_model, packed, qkv, ZERO, wide, SET)
        prepare_heads(qkv, ZERO, wide, N, s.heads, s.width, s.step, w, of[Q_NORM], model.turn, place, scale)
        prepare_heads(qkv, queries, wide, N, s.kv_heads, s.width, s.step, w, of[K_NORM], model.turn, place, one)
        for b in range(len(starts) - 1):
            n = starts[b + 1] - starts[b]
            for j in range(n):
                index[j] = (starts[b] + j) * wide
            for i in range(starts[b], starts[b + 1]):
                attend(
                    qkv, i * wide, s.heads, s.kv_heads, s.step, qkv, index, n, queries, queries + keys,
                    model.source_bias, reach - place[i], output, i * joined, p,
                )  # fmt: skip
        product(output, ZERO, joined, N, w, of[OUT], of[OUT_BIAS], queries, s.d_model, x, ZERO, width, ADD)
        if s.norm_first:
            norm_rows(x, N, s.d_model, w, of[FEED_FORWARD_NORM], h)
        else:
            norm_rows(x, N, s.d_model, w, of[SELF_NORM], x)
        add_feed_forward(
            given, N, s.d_model, s.d_ff, s.activation, w, of[GATE], of[GATE_BIAS], of[UP], of[UP_BIAS], of[DOWN],
            of[DOWN_BIAS], x, inner, gated,
        )  # fmt: skip
        if not s.norm_first:
            norm_rows(x, N, s.d_model, w, of[FEED_FORWARD_NORM], x)
    if model.others[ENCODER_NORM] >= 0:
        norm_rows(x, N, s.d_model, w, model.others[ENCODER_NORM], x)
    memory = np.empty((s.decoder_layers, N * of_memory), np.float32)
    nowhere = model.turn[:0]
    for layer in range(s.decoder_layers):
        of = model.layers[s.encoder_layers + layer]
        product(
            x,
            ZERO,
            width,
            N,
            w,
            of[CROSS_KV],
            of[CROSS_KV_BIAS],
            s.d_model,
            2 * keys,
            memory[layer],
            ZERO,
            of_memory,
            SET,
        )
        prepare_heads(
            memory[layer], ZERO, of_memory, N, s.kv_heads, s.width, s.step, w, of[CROSS_K_NORM], nowhere, place, one
        )
    return memory


@exact
def decode(
    model: Model, tokens: Array, place: Array, sentence: Array, hypothesis: Array, rows: int, ancestors: Array,
    cache: Array, memory: Array, starts: Array, h: Array, watched: int, head: int, weights: Array,
) -> None:  # fmt: skip
    """Reads a token per row into the cache, and writes to h the states that the vocabulary is multiplied with.

    If `watched` is a layer, it writes the cross-attention weights of one of its heads, and computes nothing after them.

    Args:
        tokens, place, sentence, hypothesis: (rows,) of each row its token, its position, and whose it is.
        ancestors: (B, W, positions) whose keys a hypothesis sees at each position, its own included.
        cache: (decoder layers, B, positions, W, keys and values).
        memory, starts: the output and the argument of `encode`; empty for a model without an encoder.
        watched, head, weights: the layer or NO_LAYER, its head, and (rows, longest source) the head's weights.
    """
    s, w = model.sizes, model.weights
    queries, keys = s.heads * s.step, s.kv_heads * s.step
    packed = queries + 2 * keys
    width, wide, joined, of_memory = pad_size(s.d_model), pad_size(packed), pad_size(queries), pad_size(2 * keys)
    x, output = np.empty(rows * width, np.float32), np.empty(rows * joined, np.float32)
    qkv = np.empty(rows * wide, np.float32)
    inner = np.empty(FEED_FORWARD_ROWS * pad_size(s.d_ff), np.float32)
    gated = np.empty(FEED_FORWARD_ROWS * pad_size(s.d_ff), np.float32)
    longest = 0
    for r in range(rows):
        longest = max(longest, place[r] + 1)
        if s.encoder_layers > 0:
            longest = max(longest, starts[sentence[r] + 1] - starts[sentence[r]])
    p, index = np.empty(longest + 16, np.float32), np.empty(longest, np.int64)
    one, scale, reach = np.float32(1.0), np.float32(s.width**-0.5), model.target_bias.shape[1] - 1
    nothing, nowhere = model.target_bias[:0], model.turn[:0]
    B, positions, W = cache.shape[1], cache.shape[2], cache.shape[3]
    embed(tokens, place, rows, model.target_table, model.target_positions, w[TARGET_SCALE], x)
    if model.others[TARGET_NORM] >= 0:
        norm_rows(x, rows, s.d_model, w, model.others[TARGET_NORM], x)
    for layer in range(s.decoder_layers):
        of = model.layers[s.encoder_layers + layer]
        given = x
        if s.norm_first:
            norm_rows(x, rows, s.d_model, w, of[SELF_NORM], h)
            given = h
        product(given, ZERO, width, rows, w, of[QKV], of[QKV_BIAS], s.d_model, packed, qkv, ZERO, wide, SET)
        prepare_heads(qkv, ZERO, wide, rows, s.heads, s.width, s.step, w, of[Q_NORM], model.turn, place, scale)
        prepare_heads(qkv, queries, wide, rows, s.kv_heads, s.width, s.step, w, of[K_NORM], model.turn, place, one)
        past = cache[layer].reshape(B * positions * W * 2 * keys)
        for r in range(rows):
            at = ((sentence[r] * positions + place[r]) * W + hypothesis[r]) * 2 * keys
            for c in range(2 * keys):
                past[at + c] = qkv[r * wide + queries + c]
        for r in range(rows):
            of_row = ancestors[sentence[r], hypothesis[r]]
            for j in range(place[r] + 1):
                index[j] = ((sentence[r] * positions + j) * W + of_row[j]) * 2 * keys
            attend(
                qkv, r * wide, s.heads, s.kv_heads, s.step, past, index, place[r] + 1, ZERO, keys,
                model.target_bias, reach - place[r], output, r * joined, p,
            )  # fmt: skip
        product(output, ZERO, joined, rows, w, of[OUT], of[OUT_BIAS], queries, s.d_model, x, ZERO, width, ADD)
        if not s.norm_first:
            norm_rows(x, rows, s.d_model, w, of[SELF_NORM], x)
        if s.encoder_layers > 0:
            given = x
            if s.norm_first:
                norm_rows(x, rows, s.d_model, w, of[CROSS_NORM], h)
                given = h
            product(
                given, ZERO, width, rows, w, of[CROSS_Q], of[CROSS_Q_BIAS], s.d_model, queries, qkv, ZERO, wide, SET
            )
            prepare_heads(qkv, ZERO, wide, rows, s.heads, s.width, s.step, w, of[CROSS_Q_NORM], nowhere, place, scale)
            for r in range(rows):
                first, n = starts[sentence[r]], starts[sentence[r] + 1] - starts[sentence[r]]
                for j in range(n):
                    index[j] = (first + j) * of_memory
                if layer == watched:
                    key = head // (s.heads // s.kv_heads) * s.step
                    dot_keys(qkv, r * wide + head * s.step, s.step, memory[layer], index, key, n, p)
                    softmax(p, n)
                    for j in range(n):
                        weights[r, j] = p[j]
                    continue
                attend(
                    qkv, r * wide, s.heads, s.kv_heads, s.step, memory[layer], index, n, ZERO, keys, nothing, ZERO,
                    output, r * joined, p,
                )  # fmt: skip
            if layer == watched:
                return
            product(
                output,
                ZERO,
                joined,
                rows,
                w,
                of[CROSS_OUT],
                of[CROSS_OUT_BIAS],
                queries,
                s.d_model,
                x,
                ZERO,
                width,
                ADD,
            )
            if not s.norm_first:
                norm_rows(x, rows, s.d_model, w, of[CROSS_NORM], x)
        given = x
        if s.norm_first:
            norm_rows(x, rows, s.d_model, w, of[FEED_FORWARD_NORM], h)
            given = h
        add_feed_forward(
            given, rows, s.d_model, s.d_ff, s.activation, w, of[GATE], of[GATE_BIAS], of[UP], of[UP_BIAS], of[DOWN],
            of[DOWN_BIAS], x, inner, gated,
        )  # fmt: skip
        if not s.norm_first:
            norm_rows(x, rows, s.d_model, w, of[FEED_FORWARD_NORM], x)
    if model.others[DECODER_NORM] >= 0:
        norm_rows(x, rows, s.d_model, w, model.others[DECODER_NORM], h)
    else:
        for c in range(rows * width):
            h[c] = x[c]


@exact
def project(model: Model, h: Array, first: int, rows: int, z: Array, at: int) -> None:
    """Writes the logits of some rows of h to z from `at` on.

    A row of z has the padded size of the vocabulary; the logits of the padding are minus infinity.
    """
    s = model.sizes
    width, wide = pad_size(s.d_model), pad_size(s.vocab_size)
    product(
        h, first * width, width, rows, model.weights, model.others[VOCABULARY], model.others[VOCABULARY_BIAS],
        s.d_model, s.vocab_size, z, at, wide, SET,
    )  # fmt: skip


@exact
def score(model: Model, h: Array, rows: int, targets: Array, log_probs: Array) -> bool:
    """Writes the log-probability of each row's target (rows,) by its state in h; returns False for logits of NaN."""
    V = model.sizes.vocab_size
    wide = pad_size(V)
    z, classes = np.empty(CHUNK * wide, np.float32), np.empty(COLUMNS, np.float32)
    for first in range(0, rows, CHUNK):
        count = min(CHUNK, rows - first)
        project(model, h, first, count, z, ZERO)
        for r in range(count):
            row = z[r * wide : (r + 1) * wide]
            largest = find_largest(row.reshape(wide // COLUMNS, COLUMNS), classes)
            if not abs(largest) < np.inf:
                return False
            log_probs[first + r] = row[targets[first + r]] - log_sum(row[:V], largest)
    return True
