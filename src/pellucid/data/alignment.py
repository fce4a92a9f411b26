"""The place where two files stop being parallel, found by the lengths of their lines alone.

Long sentences have long translations (Gale and Church 1993). How much a pair of lengths speaks for a translation is the
logarithm of how much more frequent it is among translations than among lines that have nothing to do with each other:
with the logarithms of both lengths as normal variables of correlation r, that is a formula. The best path through the
files then chooses for each source line the offset of its target line, each change of the offset at a price.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Counts = npt.NDArray[np.uint32]

REACH = 5  # offsets looked at beyond the two that the line counts themselves suggest
ALL_BETWEEN = 40  # a larger difference than this is looked for in one piece
PRICE = 4.0  # of a change of the offset, in nats, on top of the logarithm of the places where it may be
WORST = -6.0  # what a single pair may say against a translation: a free one must not outweigh its neighbours
LEAST_CORRELATION = 0.1
FEW = 64  # lines: a correlation of fewer is not to be relied on
BLOCK = 8  # lines that the path takes at a time
MOST_BLOCKS = 1 << 17
DOUBT = 0.005  # probability that the place lies before `earliest`, and that it lies after `latest`


@dataclass(frozen=True)
class Break:
    """From line `line` on (from 1), line n of the file that lacks lines belongs to line n + `lines` of the other.

    `earliest` and `latest` are the lines between which it lies with 99 % probability, as far as the lengths are what
    the model above takes them for. `until` is where that ends again, None where it holds to the end.
    """

    lacking: Literal["src", "tgt"]
    lines: int
    line: int
    earliest: int
    latest: int
    until: int | None


def find_break(
    src_lengths: Counts, tgt_lengths: Counts, difference: int | None = None, block: int = BLOCK
) -> Break | None:
    """Returns the first place from which the lengths fit at another offset than before; None where there is none.

    Where the lengths say nothing, as with targets that are all of one length, or lines sorted by length, the answer is
    None as well.

    Args:
        difference: by how many lines the target's file is longer, where these lengths are of stretches of both files;
            None: these are of all lines.
        block: the lines that the path takes at a time, at least.
    """
    src, tgt = _standard(src_lengths), _standard(tgt_lengths)
    more = len(tgt) - len(src) if difference is None else difference
    # Seen from the file that lacks them, lost lines are a single jump.
    if more >= 0:
        found = _find(src, tgt, "src", more, block)
        return _find(tgt, src, "tgt", -more, block) or found if found and found.lines < 0 else found
    found = _find(tgt, src, "tgt", -more, block)
    return _find(src, tgt, "src", more, block) or found if found and found.lines < 0 else found


def _find(src: Floats, tgt: Floats, lacking: Literal["src", "tgt"], difference: int, least: int) -> Break | None:
    """Returns the first break, as if lines were missing in `src`; `lines` is below 0 where they are in `tgt`."""
    offsets = _offsets(difference)
    correlation = max(*(_correlation(src, tgt, offset) for offset in offsets), _correlation_at_first(src, tgt))
    if _correlation(src, src, 1) >= correlation:  # sorted by length: a neighbour fits as well
        return None
    for _ in range(2):  # once more with the correlation along the path, which the wrong offsets do not blur
        if correlation < LEAST_CORRELATION:
            return None
        path, block = _best_path(src, tgt, offsets, correlation, least)
        changes = _changes(path, block)
        if len(changes) == 1:
            return None
        correlation = _correlation_along(src, tgt, changes) or correlation
    return _first_break(src, tgt, changes, correlation, block, lacking)


def _standard(lengths: Counts) -> Floats:
    """Returns logarithms with mean 0 and deviation 1; zeros where all are equal."""
    logarithms = np.log1p(lengths, dtype=np.float32)
    deviation = float(logarithms.std()) if len(lengths) else 0.0
    return (logarithms - logarithms.mean()) / deviation if deviation > 1e-6 else np.zeros_like(logarithms)


def _offsets(difference: int) -> list[int]:
    """Returns the offsets to look at, 0 first: there the path begins."""
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
    """Returns the correlation of both lengths, by their squared difference; of a part of the lines, too, as in a corpus
    sorted by length.
    """
    first, last = _overlap(src, tgt, offset, start, stop)
    difference = src[first:last] - tgt[first + offset : last + offset]
    return min(0.99, 1 - float(np.mean(difference * difference)) / 2) if last > first else 0.0


def _correlation_at_first(src: Floats, tgt: Floats) -> float:
    """Returns the highest correlation of some beginnings of the files, which are parallel where the rest may be lost at
    many places.
    """
    lines = min(len(src), len(tgt))
    beginnings = [FEW << power for power in range(20) if FEW << power <= lines]
    return max((_correlation(src, tgt, 0, 0, beginning) for beginning in beginnings), default=0.0)


def _correlation_along(src: Floats, tgt: Floats, changes: list[tuple[int, int]]) -> float:
    """Returns the correlation of the lines up to the second change; 0 where they are few."""
    (_, before), (start, after), (end, _) = [*changes, (len(src), 0)][:3]
    if end < FEW:
        return 0.0
    parts = _correlation(src, tgt, before, 0, start), _correlation(src, tgt, after, start, end)
    return (parts[0] * start + parts[1] * (end - start)) / end


def _evidence(src: Floats, tgt: Floats, offset: int, r: float, start: int, stop: int) -> Floats:
    """Returns what each pair says for a translation, in nats: log p(x, y) / (p(x) p(y)); 0 where a line has none."""
    found = np.zeros(stop - start, dtype=np.float32)
    first, last = _overlap(src, tgt, offset, start, stop)
    x, y = src[first:last], tgt[first + offset : last + offset]
    rest = 1 - r * r
    nats = -0.5 * math.log(rest) - (r * r * (x * x + y * y) - 2 * r * x * y) / (2 * rest)
    found[first - start : last - start] = np.maximum(nats, WORST)
    return found


def _best_path(src: Floats, tgt: Floats, offsets: list[int], r: float, least: int) -> tuple[npt.NDArray[np.int64], int]:
    """Returns the offset of each block of lines (Viterbi), and the lines of a block, at least `least`."""
    block = max(least, -(-len(src) // MOST_BLOCKS))
    evidence = np.stack([_by_block(src, tgt, offset, r, block) for offset in offsets], axis=1)
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
    """Returns what a change of the offset costs, in nats. It leaves lines out, which could be those that fit worst."""
    at = np.array(offsets)
    change = np.abs(at[:, np.newaxis] - at)
    return np.where(change > 0, math.log(lines + 1) + PRICE - WORST * np.minimum(change, REACH), 0.0)


def _by_block(src: Floats, tgt: Floats, offset: int, r: float, block: int) -> npt.NDArray[np.float64]:
    """Returns the evidence of each block, summed; a stretch of blocks at a time, for the sake of the memory."""
    stretch, sums = block << 12, []
    for start in range(0, len(src), stretch):
        values = _evidence(src, tgt, offset, r, start, min(start + stretch, len(src)))
        sums.append(np.add.reduceat(values, np.arange(0, len(values), block), dtype=np.float64))
    return np.concatenate(sums) if sums else np.empty(0)


def _changes(path: npt.NDArray[np.int64], block: int) -> list[tuple[int, int]]:
    """Returns (first line, from 0; offset) of each stretch of one offset, the first one at offset 0."""
    starts = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist()]
    found = [(start * block, int(path[start])) for start in starts]
    return found if found[0][1] == 0 else [(0, 0), *found]


def _first_break(
    src: Floats, tgt: Floats, changes: list[tuple[int, int]], r: float, block: int, lacking: Literal["src", "tgt"]
) -> Break:
    """Returns the first change, to the line: where the evidence for the offset before, up to there, and for the new
    one, from there, is strongest together.
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
    return Break(lacking, offset, place + 1, first + earliest + 1, first + latest + 1, until)
