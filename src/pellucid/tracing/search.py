"""Keeps the tree of a search: every hypothesis that was weighed, with its score and what became of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from pellucid.config.decode import CEILINGS
from pellucid.errors import shown
from pellucid.tracing.tokens import Token

ABOVE_ZERO = 1e-3
"""The most that rounding may lift the logarithm of a probability."""
MOST_NATS = 1e9
"""The largest score of a hypothesis: a million tokens of a thousand nats each. Beyond it, digits are lost."""
MOST_RANK = 1e150
"""The largest score over a power of a length."""

Status = Literal["live", "pruned", "finished", "best"]


@dataclass(frozen=True, slots=True)
class SearchNode:
    """Describes one hypothesis of a search after one more token; the root has no token before it."""

    parent: int | None
    """The node it continues."""
    token: Token
    log_prob: float
    """The log-probability of this token, in nats."""
    score: float
    """The sum of its tokens' log-probabilities."""
    ranked_by: float
    """Its score / length ** length_penalty."""
    status: Status
    """live: continued; pruned: weighed and dropped; finished: ended; best: the one that was chosen in the end."""
    row: int
    """The row of "search.cross" that tells where the model looked when it wrote this token; 0 for the root."""


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """Holds the tree of a search, parents before their children."""

    beam_size: int
    length_penalty: float
    nodes: tuple[SearchNode, ...]

    def __repr__(self) -> str:
        return f"SearchTrace(beam_size {self.beam_size}, length_penalty {self.length_penalty}, {len(self.nodes)} nodes)"


def search_problems(search: SearchTrace, rows: int) -> Iterator[str]:
    """Yields what is wrong with the tree of a search whose "search.cross" has so many rows."""
    if not 1 <= search.beam_size <= CEILINGS["beam_size"]:
        yield f"has the `beam_size` {shown(search.beam_size)}; it must be in 1..{CEILINGS['beam_size']:,}"
    if not abs(search.length_penalty) <= CEILINGS["length_penalty"]:
        most = CEILINGS["length_penalty"]
        yield f"has the `length_penalty` {search.length_penalty}; it must be in {-most}..{most}"
    if not search.nodes:
        yield "has no nodes"
    for place, node in enumerate(search.nodes):
        if (node.parent is None) != (place == 0):
            yield f"has a root at node {place}" if place else "does not begin with its root"
        elif node.parent is not None and not 0 <= node.parent < place:
            yield f"has node {place} before its parent {node.parent}"
        if not 0 <= node.row < rows:
            yield f"has node {place} in row {node.row}, but there are {rows} rows"
        if node.status not in get_args(Status):
            yield f"has node {place} with the status `{shown(node.status)}`; known are {', '.join(get_args(Status))}"
        for name, most in (("log_prob", MOST_NATS), ("score", MOST_NATS), ("ranked_by", MOST_RANK)):
            if not abs(value := getattr(node, name)) <= most:
                yield f"has node {place} with the `{name}` {value}, which is not finite or beyond {most:g}"
        if node.log_prob > ABOVE_ZERO:
            yield f"has node {place} with the `log_prob` {node.log_prob}: no probability is above 1"
