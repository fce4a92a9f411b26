"""The windows of an epoch that has too many pairs to sort: a pure function of (seed, epoch).

An epoch is split into blocks of consecutive pairs, the blocks are shuffled, and each window consists of the next blocks
with WINDOW pairs in total. `BucketBatchSampler` creates the batches of a window; a smaller epoch is one window. So the
memory is constant, except 32 bytes per block, and a run resumes within an epoch after ordering one window.
"""

from dataclasses import dataclass

import numpy as np

from pellucid.data.sentences import Indices

MOST_SORTED = 1 << 21
"""Pairs up to which an epoch is one window. A resumed run has its original order only if this constant, BLOCK, WINDOW
and STRIDE are unchanged."""
BLOCK = 256
"""Pairs per block: they are contiguous on disk, and in the same window."""
WINDOW = 1 << 18
STRIDE = 1 << 20
"""Positions reserved per window, more than its batches at most: position p of window w is w * STRIDE + p."""


Corpora = tuple[tuple[int, float], ...]
Mixes = tuple[tuple[int, tuple[float, ...]], ...]


def needs_windows(pairs: int) -> bool:
    """Returns True if an epoch of a corpus with `pairs` pairs is ordered in several windows."""
    return pairs > MOST_SORTED


def select_epoch_weights(corpora: Corpora, mixing_schedule: Mixes, epoch: int) -> Corpora:
    """Returns the corpora with their weights in an epoch."""
    weights = [found for start, found in mixing_schedule if start <= epoch]
    return tuple(zip((size for size, _ in corpora), weights[-1], strict=True)) if weights else corpora


@dataclass(frozen=True)
class Blocks:
    """The blocks of an epoch in order: their first draws, their sizes, and the boundaries of the windows."""

    first: Indices
    sizes: Indices
    windows: Indices
    """The index of each window's first block, and the number of blocks."""


@dataclass(frozen=True)
class Windows:
    """Assigns draws to windows: draw d is of pair d % total, as in `BucketBatchSampler`."""

    total: int
    """Pairs of the corpus."""
    seed: int
    corpora: Corpora = ()
    """(pairs, weight) of each corpus, in order; empty: one corpus of weight 1."""
    mixes: Mixes = ()
    """(first epoch, weight of each corpus), if the weights change."""

    def blocks(self, epoch: int) -> Blocks:
        """Returns the blocks of an epoch: with weight 2.3, each block of a corpus twice, and three tenths once more.

        The block boundaries are shifted in each epoch, so that blocks contain different pairs.
        """
        generator = np.random.default_rng([self.seed, epoch])
        first, sizes, start = [], [], 0
        for size, weight in select_epoch_weights(self.corpora, self.mixes, epoch) or ((self.total, 1.0),):
            edges = np.concatenate([[0], np.arange(int(generator.integers(1, BLOCK + 1)), size, BLOCK), [size]])
            starts, lengths = edges[:-1] + start, np.diff(edges)
            for time in range(int(weight)):
                first.append(starts + time * self.total)
                sizes.append(lengths)
            if rest := round((weight - int(weight)) * size):
                chosen = generator.permutation(len(starts))
                ends = np.cumsum(lengths[chosen])
                count = int(np.searchsorted(ends, rest)) + 1
                part = lengths[chosen[:count]].copy()
                part[-1] -= int(ends[count - 1]) - rest
                first.append(starts[chosen[:count]] + int(weight) * self.total)
                sizes.append(part)
            start += size
        order = generator.permutation(sum(map(len, first)))
        firsts, lengths = np.concatenate(first)[order], np.concatenate(sizes)[order]
        before = np.cumsum(lengths) - lengths
        windows = np.searchsorted(before, np.arange(0, int(lengths.sum()), WINDOW))
        return Blocks(firsts, lengths, np.unique(np.append(windows, len(firsts))))  # none without a block

    def draws(self, blocks: Blocks, window: int) -> Indices:
        """Returns the draws of a window, block by block."""
        part = slice(blocks.windows[window], blocks.windows[window + 1])
        first, sizes = blocks.first[part], blocks.sizes[part]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.repeat(first, sizes) + within
