"""Finds the place where two files stop being parallel, from the lengths of their lines only.

Long sentences have long translations (Gale and Church 1993). The evidence of a pair of lengths for a translation is the
logarithm of its probability among translations relative to unrelated lines; if the logarithms of both lengths are
normal variables with correlation r, it has a closed form. The best path through the files then chooses the offset of
the target line for each source line, with a penalty for each change of the offset.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Counts = npt.NDArray[np.uint32]

REACH = 5  # offsets searched beyond the two that the line counts suggest
ALL_BETWEEN = 40  # difference up to which all offsets between the two are searched
PRICE = 4.0  # penalty for a change of the offset, in nats, in addition to the logarithm of the possible places
WORST = -6.0  # minimum evidence of a pair, so that one free translation does not outweigh its neighbors
LEAST_CORRELATION = 0.1
FEW = 64  # lines: the correlation of fewer is unreliable
BLOCK = 8  # lines per step of the path
MOST_BLOCKS = 1 << 17
DOUBT = 0.005  # probability that the place is before `earliest`, and that it is after `latest`


@dataclass(frozen=True)
class LineMismatch:
    """From line `line` on (from 1), line n of the file that lacks lines belongs to line n + `lines` of the other.

    The place is between `earliest` and `latest` with 99 % probability, if the lengths follow the model above. `until`
    is the line where the mismatch ends, None if it continues to the end.
    """

    lacking: Literal["src", "tgt"]
    lines: int
    line: int
    earliest: int
    latest: int
    until: int | None


def find_line_mismatch(
    src_lengths: Counts, tgt_lengths: Counts, difference: int | None = None, block: int = BLOCK
) -> LineMismatch | None:
    """Returns the first place from which the lengths match at another offset; None if there is none.

    Also returns None if the lengths are uninformative: targets of one length, lines sorted by length, or fewer than FEW
    lines.

    Args:
        difference: the number of lines by which the target file is longer, if these lengths are of chunks of both
            files; None: these are the lengths of all lines.
        block: lines per step of the path, at least.
    """
    if min(len(src_lengths), len(tgt_lengths)) < FEW:
        return None
    src, tgt = _standard(src_lengths), _standard(tgt_lengths)
    more = len(tgt) - len(src) if difference is None else difference
    # From the file that lacks them, missing lines are a single change of the offset.
    if more >= 0:
        found = _find(src, tgt, "src", more, block)
        return _find(tgt, src, "tgt", -more, block) or found if found and found.lines < 0 else found
    found = _find(tgt, src, "tgt", -more, block)
    return _find(src, tgt, "src", more, block) or found if found and found.lines < 0 else found


def _find(src: Floats, tgt: Floats, lacking: Literal["src", "tgt"], difference: int, least: int) -> LineMismatch | None:
    """Returns the first break, assuming that lines are missing in `src`; `lines` is negative if they are in `tgt`."""
    offsets = _offsets(difference)
    correlation = max(*(_correlation(src, tgt, offset) for offset in offsets), _correlation_at_first(src, tgt))
    if _correlation(src, src, 1) >= correlation:  # sorted by length: a neighbour fits as well
        return None
    for _ in range(2):  # the second time with the correlation along the path, without wrong offsets
        if correlation < LEAST_CORRELATION:
            return None
        path, block = _best_path(src, tgt, offsets, correlation, least)
        changes = _changes(path, block)
        if len(changes) == 1:
            return None
        correlation = _correlation_along(src, tgt, changes) or correlation
    return _first_break(src, tgt, changes, correlation, block, lacking)


def _standard(lengths: Counts) -> Floats:
    """Returns logarithms with mean 0 and standard deviation 1; zeros if all are equal."""
    logarithms = np.log1p(lengths, dtype=np.float32)
    deviation = float(logarithms.std()) if len(lengths) else 0.0
    return (logarithms - logarithms.mean()) / deviation if deviation > 1e-6 else np.zeros_like(logarithms)


def _offsets(difference: int) -> list[int]:
    """Returns the offsets to search, beginning with 0, where the path begins."""
    found = {*range(-REACH, REACH + 1), *range(difference - REACH, difference + REACH + 1)}
    if abs(difference) <= ALL_BETWEEN:
        found |= set(range(min(0, difference), max(0, difference)))
    return sorted(found, key=lambda offset: (abs(offset), offset))


def _overlap(src: Floats, tgt: Floats, offset: int, start: int = 0, stop: int | None = None) -> tuple[int, int]:
    """Returns the source lines between start and stop that have a target line at this offset."""
    stop = len(src) if stop is None else stop
    first, last = max(start, -offset), min(stop, len(tgt) - offset)
    return first, max(first, last)


def _correlation(src: Floats, tgt: Floats, offset: int, start: int = 0, stop: int | None = None) -> float:
    """Returns the correlation of both lengths, by their squared difference; also valid for a part of the lines, as in a
    corpus sorted by length.
    """
    first, last = _overlap(src, tgt, offset, start, stop)
    difference = src[first:last] - tgt[first + offset : last + offset]
    return min(0.99, 1 - float(np.mean(difference * difference)) / 2) if last > first else 0.0


def _correlation_at_first(src: Floats, tgt: Floats) -> float:
    """Returns the highest correlation of several initial segments of the files, which may be parallel even if the rest
    has many mismatches.
    """
    lines = min(len(src), len(tgt))
    beginnings = [FEW << power for power in range(20) if FEW << power <= lines]
    return max((_correlation(src, tgt, 0, 0, beginning) for beginning in beginnings), default=0.0)


def _correlation_along(src: Floats, tgt: Floats, changes: list[tuple[int, int]]) -> float:
    """Returns the correlation of the lines up to the second change; 0 if there are fewer than FEW."""
    (_, before), (start, after), (end, _) = [*changes, (len(src), 0)][:3]
    if end < FEW:
        return 0.0
    parts = _correlation(src, tgt, before, 0, start), _correlation(src, tgt, after, start, end)
    return (parts[0] * start + parts[1] * (end - start)) / end


def _evidence(src: Floats, tgt: Floats, offset: int, r: float, start: int, stop: int) -> Floats:
    """Returns the evidence of each pair for a translation, in nats: log p(x, y) / (p(x) p(y)); 0 without a target."""
    found = np.zeros(stop - start, dtype=np.float32)
    first, last = _overlap(src, tgt, offset, start, stop)
    x, y = src[first:last], tgt[first + offset : last + offset]
    rest = 1 - r * r
    nats = -0.5 * math.log(rest) - (r * r * (x * x + y * y) - 2 * r * x * y) / (2 * rest)
    found[first - start : last - start] = np.maximum(nats, WORST)
    return found


def _best_path(src: Floats, tgt: Floats, offsets: list[int], r: float, least: int) -> tuple[npt.NDArray[np.int64], int]:
    """Returns the offset of each block of lines (Viterbi), and the lines per block, at least `least`."""
    block = max(least, -(-len(src) // MOST_BLOCKS))
    evidence = np.stack([_sum_blocks(src, tgt, offset, r, block) for offset in offsets], axis=1)
    prices = _prices(offsets, len(src))
    total = -prices[0]
    came_from = np.empty(evidence.shape, dtype=np.int32)
    for row, values in enumerate(evidence):
        ways = total[:, np.newaxis] - prices
        came_from[row] = ways.argmax(axis=0)
        total = ways.max(axis=0) + values
    path = np.empty(len(evidence), dtype=np.int64)
    state = int(total.argmax())
    for row in range(len(evidence) - 1, -1, -1):
        path[row] = offsets[state]
        state = int(came_from[row, state])
    return path, block


def _prices(offsets: list[int], lines: int) -> npt.NDArray[np.float64]:
    """Returns the penalty of each change of the offset, in nats. A change skips lines, possibly the worst matches."""
    at = np.array(offsets)
    change = np.abs(at[:, np.newaxis] - at)
    return np.where(change > 0, math.log(lines + 1) + PRICE - WORST * np.minimum(change, REACH), 0.0)


def _sum_blocks(src: Floats, tgt: Floats, offset: int, r: float, block: int) -> npt.NDArray[np.float64]:
    """Returns the summed evidence of each block; computes a chunk of blocks at a time to limit memory."""
    chunk, sums = block << 12, []
    for start in range(0, len(src), chunk):
        values = _evidence(src, tgt, offset, r, start, min(start + chunk, len(src)))
        sums.append(np.add.reduceat(values, np.arange(0, len(values), block), dtype=np.float64))
    return np.concatenate(sums) if sums else np.empty(0)


def _changes(path: npt.NDArray[np.int64], block: int) -> list[tuple[int, int]]:
    """Returns (first line, from 0; offset) of each chunk of one offset, the first one at offset 0."""
    starts = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist()]
    found = [(start * block, int(path[start])) for start in starts]
    return found if found[0][1] == 0 else [(0, 0), *found]


def _first_break(
    src: Floats, tgt: Floats, changes: list[tuple[int, int]], r: float, block: int, lacking: Literal["src", "tgt"]
) -> LineMismatch:
    """Returns the first change, to the line: the line that maximizes the sum of the evidence for the old offset before
    it and for the new offset from it on.
    """
    start, offset = changes[1]
    end = changes[2][0] if len(changes) > 2 else len(src)
    first, last = max(0, start - 30 * block), min(start + 30 * block, end)
    before, after = (_evidence(src, tgt, k, r, first, last).astype(np.float64) for k in (0, offset))
    gain = np.concatenate([[0.0], np.cumsum(before - after)])
    probability = np.exp(gain - gain.max())
    below = np.cumsum(probability) / probability.sum()
    earliest, latest = (int(np.searchsorted(below, level)) for level in (DOUBT, 1 - DOUBT))
    place = first + int(gain.argmax())
    until = end + 1 if len(changes) > 2 else None
    return LineMismatch(lacking, offset, place + 1, first + earliest + 1, first + latest + 1, until)
