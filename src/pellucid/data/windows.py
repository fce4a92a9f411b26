"""The order of an epoch where the pairs are too many to sort: a pure function of (seed, epoch), a window at a time.

An epoch is cut into blocks of neighbouring pairs, the blocks are shuffled, and so many of them make a window as have
WINDOW pairs. A window is to its batches what a whole corpus is to those of `BatchOrder`. So what is in memory does not
grow with the corpus, but for 32 bytes a block, and a run goes on in the middle after ordering one window.
"""

from dataclasses import dataclass

import numpy as np

from pellucid.data.sentences import Indices

BLOCK = 256
"""Pairs of a block: they lie together on the disk, and meet in one window."""
WINDOW = 1 << 18
STRIDE = 1 << 20
"""The numbers of places that a window takes, more than it can have batches: place p of window w is w * STRIDE + p."""


Corpora = tuple[tuple[int, float], ...]
Mixes = tuple[tuple[int, tuple[float, ...]], ...]


def mixed(corpora: Corpora, mixes: Mixes, epoch: int) -> Corpora:
    """Returns corpora with the weights that they have in an epoch."""
    weights = [found for start, found in mixes if start <= epoch]
    return tuple(zip((size for size, _ in corpora), weights[-1], strict=True)) if weights else corpora


@dataclass(frozen=True)
class Blocks:
    """The blocks of an epoch in their order: the first draw of each, how many there are, and where windows begin."""

    first: Indices
    sizes: Indices
    windows: Indices
    """The block with which each window begins, and the number of all blocks."""


@dataclass(frozen=True)
class Windows:
    """Says which draws make which window: draw d is of pair d % total, as in `BatchOrder`."""

    total: int
    """Pairs of the corpus."""
    seed: int
    corpora: Corpora = ()
    """(pairs, weight) of each corpus, in their order; empty: one corpus of weight 1."""
    mixes: Mixes = ()
    """(first epoch, weight of each corpus), where these change."""

    def blocks(self, epoch: int) -> Blocks:
        """Returns the blocks of an epoch: of a corpus of weight 2.3 each twice, and three tenths of them once more.

        Where they begin is another place each epoch, so that not always the same pairs meet.
        """
        generator = np.random.default_rng([self.seed, epoch])
        first, sizes, start = [], [], 0
        for size, weight in mixed(self.corpora, self.mixes, epoch) or ((self.total, 1.0),):
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
