"""The records of a search: what it found, and what each of its steps weighed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Hypothesis:
    """An output: its ids without start and end token, and the sum of the log-probabilities of what was chosen."""

    ids: list[int]
    score: float
    """The sum in nats, with that of the end token."""
    prefix_length: int = 0
    """The number of tokens that it had to begin with; they are neither in `ids` nor in the score."""
    ended: bool = True
    """False: the text was cut off at its limit, and no end token is in the score or in the length."""

    @property
    def length(self) -> int:
        """The number of its tokens, with the end token and the prefix."""
        return self.prefix_length + len(self.ids) + self.ended

    def rank(self, length_penalty: float) -> float:
        """Returns score / length ** length_penalty, by which hypotheses are compared: higher is better."""
        rank: float = self.score / self.length**length_penalty
        return rank


@dataclass(frozen=True)
class Found:
    """The hypotheses of a sentence, best first, and how near the search came to another outcome."""

    hypotheses: list[Hypothesis]
    margin: float = math.inf
    """The ids stay what they are while no sum of log-probabilities changes by as much as half of this (nats).

    A sentence whose margin is smaller than what rounding does is searched again, alone. A search that does not know its
    margin leaves it infinite: then nothing is searched twice, and a near tie may depend on the sentences beside it.
    """


@dataclass(frozen=True)
class Weighed:
    """A continuation that a step of a search weighed."""

    parent: int
    """The place of the live hypothesis that it continues."""
    token: int
    log_prob: float
    """The log-probability of the token."""
    score: float
    """The score of the whole, without its prefix."""
    fate: Literal["live", "finished", "pruned"]
    """live: it goes on, and the n-th such is at place n of the next step; finished: it ended; pruned: it was dropped.
    """


Watcher = Callable[[list[Weighed]], None]
"""Is called at each step of the search of one sentence with what it weighed, best first."""
