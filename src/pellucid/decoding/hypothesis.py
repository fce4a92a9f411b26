"""The records of a search: its hypotheses, and the continuations of each step."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Hypothesis:
    """An output: its ids without start and end token, and the sum of its tokens' log-probabilities."""

    ids: list[int]
    score: float
    """The sum in nats, with that of the end token."""
    prefix_length: int = 0
    """The number of tokens of its fixed prefix, which are neither in `ids` nor in the score."""
    ended: bool = True
    """If False, the text was truncated at its limit, and neither score nor length includes an end token."""

    @property
    def length(self) -> int:
        """The number of its tokens, with the end token and the prefix."""
        return self.prefix_length + len(self.ids) + self.ended

    def rank(self, length_penalty: float) -> float:
        """Returns score / length ** length_penalty, by which hypotheses are compared: higher is better."""
        rank: float = self.score / self.length**length_penalty
        return rank


@dataclass(frozen=True)
class SearchResult:
    """The hypotheses of a sentence, best first, and the margin by which the search chose them."""

    hypotheses: list[Hypothesis]
    margin: float = math.inf
    """The ids do not change while every sum of log-probabilities changes by less than half of this (nats).

    A sentence whose margin is below the rounding error is searched again, alone. A search that does not compute its
    margin leaves it infinite: then no sentence is searched again, and a near tie may depend on the batch.
    """


@dataclass(frozen=True)
class Continuation:
    """A continuation that a step of a search considered."""

    parent: int
    """The index of the live hypothesis that it continues."""
    token: int
    log_prob: float
    """The log-probability of the token."""
    score: float
    """The score of the whole hypothesis, without its prefix."""
    status: Literal["live", "finished", "pruned"]
    """live: the n-th live continuation is hypothesis n of the next step; finished: it ended; pruned: it was dropped.
    """


StepCallback = Callable[[list[Continuation]], None]
"""Callback for the search of one sentence: called at each step with its continuations, best first."""
