"""A running text in blocks: each token is predicted once an epoch, from those before it in its block."""

from dataclasses import dataclass

import numpy as np

from pellucid.data.order import Indices, Order


@dataclass(frozen=True)
class BlockOrder(Order):
    """Which blocks make which batch, epoch by epoch."""

    tokens: int
    """Of the whole text."""
    block: int
    """Tokens of a block."""
    batch_tokens: int
    seed: int

    def epoch(self, epoch: int) -> list[Indices]:
        """The batches of an epoch, as the places where their blocks start, in random order.

        Epoch 0 cuts from the text's beginning, each later one from a place of its own, so that a token is not always as
        far from its block's start. Where that leaves a beginning, one block more holds it, and what follows it again.
        """
        generator = np.random.default_rng([self.seed, epoch])
        offset = int(generator.integers(self.block)) if epoch else 0
        starts = np.arange(offset, self.tokens - 1, self.block)
        if offset:
            starts = np.concatenate([[0], starts])
        shuffled = generator.permutation(starts)
        size = max(1, self.batch_tokens // self.block)
        return [shuffled[i : i + size] for i in range(0, len(shuffled), size)]
