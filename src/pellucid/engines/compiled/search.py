"""Greedy and beam search as compiled functions: the rules of decoding/beam.py, over ragged rows.

A beam considers the 2W best continuations of a sentence: ends among the first W are finished, the first W others stay
live; of equal continuations the one of the lower hypothesis and id comes first.
"""

import numpy as np

from pellucid.engines.compiled.layers import Array, Float, exact, find_largest, log_sum, pad_size
from pellucid.engines.compiled.layout import COLUMNS, FIRST_POSITIONS, NO_LAYER, ZERO, Model
from pellucid.engines.compiled.passes import CHUNK, decode, encode, project


@exact
def copy(target: Array, source: Array, count: int) -> None:
    """Copies the first `count` numbers of a row."""
    for c in range(count):
        target[c] = source[c]


@exact
def fill(target: Array, number: int, count: int) -> None:
    """Sets the first `count` numbers of a row."""
    for c in range(count):
        target[c] = number


@exact
def grow(cache: Array, used: int) -> Array:
    """Returns a cache with twice the positions, and its first `used` ones."""
    layers, B, positions, W, width = cache.shape
    new = np.empty((layers, B, 2 * positions, W, width), np.float32)
    for layer in range(layers):
        for b in range(B):
            copy(new[layer, b].reshape(-1), cache[layer, b].reshape(-1), used * W * width)
    return new


@exact
def start_cache(model: Model, B: int, W: int) -> Array:
    """Returns an empty cache: (decoder layers, B, positions, W, keys and values)."""
    s = model.sizes
    return np.empty((s.decoder_layers, B, FIRST_POSITIONS, W, 2 * s.kv_heads * s.step), np.float32)


@exact
def suppress(z: Array, never: Array, classes: Array) -> None:
    """Sets some logits of a row z (n, COLUMNS) to minus infinity, and corrects the largest of their columns."""
    for i in range(len(never)):
        z[never[i] // COLUMNS, never[i] % COLUMNS] = -np.inf
    for i in range(len(never)):
        c = never[i] % COLUMNS
        largest = z[0, c]
        for j in range(1, len(z)):
            largest = max(largest, z[j, c])
        classes[c] = largest


@exact
def find_first(z: Array, classes: Array) -> int:
    """Returns the index of the largest number of a row z (n, COLUMNS), on ties the first."""
    largest, best = classes[0], z.size
    for c in range(1, COLUMNS):
        largest = max(largest, classes[c])
    for c in range(COLUMNS):
        if classes[c] == largest:
            for j in range(len(z)):
                if z[j, c] == largest:
                    best = min(best, j * COLUMNS + c)
                    break
    return best


@exact
def precedes(a: Array, a_length: int, b: Array, b_length: int) -> bool:
    """Returns True if output a precedes output b in lexicographic order of ids, which decides ties of ranks."""
    for c in range(min(a_length, b_length)):
        if a[c] != b[c]:
            return a[c] < b[c]
    return a_length < b_length


@exact
def insert(
    ids: Array, length: int, score: float, rank: float, out: Array, counts: Array, scores: Array, ranks: Array
) -> None:
    """Inserts a finished hypothesis into the n best of a sentence, if it ranks among them: on ties by its ids."""
    longest, at = out.shape[1], len(ranks)
    while at > 0:
        is_tie = rank == ranks[at - 1]
        if is_tie and counts[at - 1] >= 0:
            is_better = precedes(ids, length, out[at - 1], counts[at - 1])
        else:
            is_better = is_tie or rank > ranks[at - 1]
        if not is_better:
            break
        at -= 1
    if at == len(ranks):
        return
    for other in range(len(ranks) - 1, at, -1):
        ranks[other], scores[other], counts[other] = ranks[other - 1], scores[other - 1], counts[other - 1]
        copy(out[other], out[other - 1], longest)
    ranks[at], scores[at], counts[at] = rank, score, length
    copy(out[at], ids, length)


@exact
def merge(
    row: Array, classes: Array, total: Float, added: Float, first: int, is_limited: bool, eos_id: int, values: Array,
    at: Array, have: int,
) -> int:  # fmt: skip
    """Merges the continuations of a hypothesis into the best ones of a sentence; returns their number.

    Args:
        row, classes: (n, COLUMNS) logits, and the largest of each column.
        total, added: the logarithm of the sum of exponentials and the score so far: a score is logit - total + added.
        first: the place of token 0 among the continuations. If `is_limited`, only the end token is allowed.
        values, at: the best continuations so far, best first, and their places; `have` of them are filled.
    """
    k = len(values)
    for c in range(COLUMNS):
        if is_limited and c != eos_id % COLUMNS:
            continue
        if have == k and (classes[c] - total) + added < values[k - 1]:
            continue
        for j in range(len(row)):
            value, here = (row[j, c] - total) + added, first + j * COLUMNS + c
            if value == -np.inf or (is_limited and here - first != eos_id):
                continue
            if have < k or value > values[k - 1] or (value == values[k - 1] and here < at[k - 1]):
                if have < k:
                    have += 1
                q = have - 1
                while q > 0 and (values[q - 1] < value or (values[q - 1] == value and at[q - 1] > here)):
                    values[q], at[q] = values[q - 1], at[q - 1]
                    q -= 1
                values[q], at[q] = value, here
    return have


@exact
def search(
    model: Model, ids: Array, starts: Array, begin: Array, limits: Array, never: Array, eos_id: int, W: int,
    length_penalty: float, out: Array, counts: Array, scores: Array, ranks: Array, finished: Array,
) -> bool:  # fmt: skip
    """Searches B outputs with beams of W hypotheses, greedily if W is 1; returns False if the model returns NaN.

    Args:
        ids, starts: the sources, as for `encode`.
        begin: the tokens that each output begins with, which are neither returned nor scored.
        limits: (B,) the most tokens of each output.
        never: the ids that are not written.
        out: (B, n, the largest limit) the n best outputs, best first, without end tokens.
        counts, scores, ranks: (B, n) their lengths, -1 for none, sums of log-probabilities, and ranks.
        finished: (B,) the hypotheses of each that ended.
    """
    B, V, N = len(starts) - 1, model.sizes.vocab_size, out.shape[1]
    wide, longest = pad_size(V), out.shape[2]
    memory, cache = encode(model, ids, starts), start_cache(model, B, W)
    most_read = len(begin) + longest + 1
    ancestors, new_ancestors = np.zeros((B, W, most_read), np.int64), np.zeros((W, most_read), np.int64)
    read, new_read = np.zeros((B, W, longest + 1), np.int64), np.zeros((W, longest + 1), np.int64)
    h, z = np.empty(B * W * pad_size(model.sizes.d_model), np.float32), np.empty(max(CHUNK, W) * wide, np.float32)
    classes = np.empty(COLUMNS, np.float32)
    tokens, place = np.empty(B * W, np.int64), np.empty(B * W, np.int64)
    sentence, hypothesis = np.empty(B * W, np.int64), np.empty(B * W, np.int64)
    new_sentence, new_hypothesis = np.empty(B * W, np.int64), np.empty(B * W, np.int64)
    live, nothing = np.full((B, W), -np.inf), np.empty((0, 0), np.float32)
    values, at = np.empty(2 * W, np.float32), np.empty(2 * W, np.int64)
    for b in range(B):
        live[b, 0], tokens[b], sentence[b], hypothesis[b], finished[b] = 0.0, begin[0], b, 0, 0
        for n in range(N):
            ranks[b, n], counts[b, n] = -np.inf, -1
    rows, t = B, ZERO
    while rows > 0:
        if t == cache.shape[2]:
            cache = grow(cache, t)
        fill(place, t, rows)
        decode(
            model, tokens, place, sentence, hypothesis, rows, ancestors, cache, memory, starts, h, NO_LAYER, ZERO,
            nothing,
        )  # fmt: skip
        t += 1
        if t < len(begin):
            fill(tokens, begin[t], rows)
            continue
        length, left, first = t - len(begin), 0, 0
        while first < rows:
            last = first  # the rows of whole sentences that fit into a chunk
            while last < rows:
                end = last + 1
                while end < rows and sentence[end] == sentence[last]:
                    end += 1
                if end - first > max(CHUNK, W):
                    break
                last = end
            project(model, h, first, last - first, z, ZERO)
            r = first
            while r < last:
                b, have = sentence[r], ZERO
                highest = live[b, 0]
                for i in range(1, W):
                    highest = max(highest, live[b, i])
                # Its 2W best continuations, best first.
                while r < last and sentence[r] == b:
                    i, flat = hypothesis[r], z[(r - first) * wide : (r - first + 1) * wide]
                    row = flat.reshape(wide // COLUMNS, COLUMNS)
                    largest = find_largest(row, classes)
                    if not abs(largest) < np.inf:
                        return False
                    total = log_sum(flat[:V], largest)
                    added = np.float32(live[b, i] - highest)
                    suppress(row, never, classes)
                    is_limited = length >= limits[b]
                    if W == 1:
                        best = eos_id if is_limited else find_first(row, classes)
                        values[0], at[0], have = flat[best] - total, best, 1
                    else:
                        have = merge(row, classes, total, added, i * V, is_limited, eos_id, values, at, have)
                    r += 1
                alive = 0
                for q in range(have):
                    i, token, score = at[q] // V, at[q] % V, np.float64(values[q]) + highest
                    if token == eos_id:
                        if q >= W:
                            continue
                        finished[b] += 1
                        rank = score / np.float64(len(begin) + length) ** length_penalty
                        insert(read[b, i], length, score, rank, out[b], counts[b], scores[b], ranks[b])
                    elif alive < W:
                        copy(new_read[alive], read[b, i], length)
                        new_read[alive, length] = token
                        copy(new_ancestors[alive], ancestors[b, i], t)
                        live[b, alive] = score
                        alive += 1
                for i in range(alive, W):
                    live[b, i] = -np.inf
                rival = -np.inf
                for i in range(alive):
                    copy(read[b, i], new_read[i], length + 1)
                    copy(ancestors[b, i], new_ancestors[i], t)
                    ancestors[b, i, t] = i
                    rival = max(rival, live[b, i])
                is_done = alive == 0
                if not is_done and finished[b] > 0:
                    bound, most = length + 1, limits[b] + 1
                    if finished[b] < W:
                        bound = most if length_penalty > 0 else min(bound + 1, most)
                    is_done = ranks[b, N - 1] >= rival / np.float64(bound + len(begin) - 1) ** length_penalty
                if not is_done:
                    for i in range(alive):
                        tokens[left], new_sentence[left], new_hypothesis[left] = read[b, i, length], b, i
                        left += 1
            first = last
        rows = left
        copy(sentence, new_sentence, rows)
        copy(hypothesis, new_hypothesis, rows)
    return True
