"""The number of lines per chunk of a stream: as many as are processed in a few seconds."""

import time
from collections import deque
from collections.abc import Callable

SECONDS = 4.0
"""The target time per chunk: progress, outputs and the state for resuming are updated at this interval."""
FEWEST, MOST = 8, 2048
"""The bounds of a chunk: with fewer lines a batch is nearly empty, with more lines nothing is gained."""
GROWTH = 4
"""The largest factor between a chunk and the previous ones: the times of the first chunks are inaccurate."""


class ChunkSizes:
    """Chooses the number of lines of the next chunk, from the times of the previous chunks.

    The output for a line does not depend on its chunk, except for rounding.
    """

    def __init__(self, workers: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        """`workers`: the number of processes that process chunks in parallel; their speed is measured together."""
        self._workers = workers
        self._clock = clock
        self._begun: deque[tuple[int, float]] = deque()
        self._answered: deque[tuple[int, float]] = deque(maxlen=2 * workers)
        self._last_end = 0.0

    def choose(self, share: float | None = None, read: int = 0) -> int:
        """Returns the number of lines of the next chunk.

        Args:
            share: the fraction of the input that has been read, from 0 to 1, if it is known: near the end several
                workers get fewer lines each, so that all end at about the same time.
            read: the number of lines that were read for that share.
        """
        lines = sum(number for number, _ in self._answered)
        seconds = sum(each for _, each in self._answered)
        most = GROWTH * max((number for number, _ in self._answered), default=0)
        size = min(most, round(lines / max(seconds, 1e-9) * SECONDS / self._workers))
        if self._workers > 1 and share:
            size = min(size, round(read * (1 - share) / share / (2 * self._workers)))
        return min(MOST, max(FEWEST, size))

    def begin(self, lines: int) -> None:
        """Records that a chunk of `lines` lines starts now."""
        self._begun.append((lines, self._clock()))

    def end(self) -> None:
        """Records that the oldest open chunk is finished; time without an open chunk does not count."""
        lines, begun = self._begun.popleft()
        now = self._clock()
        self._answered.append((lines, now - max(begun, self._last_end)))
        self._last_end = now
