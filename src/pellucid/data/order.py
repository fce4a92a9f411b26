"""What is trained on when: epoch by epoch, and on from any place."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


class Order(ABC):
    """Which examples make which batch: a pure function of (seed, epoch).

    So a run that stands at position p of epoch e needs no more than these numbers to go on.
    """

    @abstractmethod
    def epoch(self, epoch: int) -> list[Indices]:
        """The batches of an epoch."""

    def follow(self, epoch: int, position: int) -> Iterator[tuple[int, int, Indices]]:
        """All batches from a place on, without end: (epoch, position after it, examples)."""
        while True:
            batches = self.epoch(epoch)
            for place in range(position, len(batches)):
                yield epoch, place + 1, batches[place]
            epoch, position = epoch + 1, 0
