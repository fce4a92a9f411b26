"""Holds the tree of a beam search: every hypothesis that was scored, with its score and status."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from pellucid.config.decode import CEILINGS
from pellucid.errors import format_value
from pellucid.tracing.tokens import Token

ABOVE_ZERO = 1e-3
"""The largest log-probability, which rounding can lift above 0."""
MOST_NATS = 1e9
"""The largest absolute score of a hypothesis: a million tokens of a thousand nats each. Beyond it, digits are lost."""
MOST_RANK = 1e150
"""The largest absolute score divided by a power of the length."""

Status = Literal["live", "pruned", "finished", "best"]


@dataclass(frozen=True, slots=True)
class SearchNode:
    """Describes one hypothesis of a search after one more token; the root has no token."""

    parent: int | None
    """The parent node, which this node continues."""
    token: Token
    log_prob: float
    """The log-probability of this token, in nats."""
    score: float
    """The sum of the log-probabilities of its tokens."""
    ranked_by: float
    """The ranking score: score / length ** length_penalty."""
    status: Status
    """live: continued; pruned: scored and dropped; finished: ended; best: the selected hypothesis."""
    row: int
    """The row of "search.cross" with the attention at the step that wrote this token; 0 for the root."""


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """Holds the tree of a search, parents before their children."""

    beam_size: int
    length_penalty: float
    nodes: tuple[SearchNode, ...]

    def __repr__(self) -> str:
        return f"SearchTrace(beam_size {self.beam_size}, length_penalty {self.length_penalty}, {len(self.nodes)} nodes)"


def search_problems(search: SearchTrace, rows: int) -> Iterator[str]:
    """Yields the inconsistencies of a search tree whose "search.cross" has `rows` rows."""
    if not 1 <= search.beam_size <= CEILINGS["beam_size"]:
        yield f"has the `beam_size` {format_value(search.beam_size)}; it must be in 1..{CEILINGS['beam_size']:,}"
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
            yield (
                f"has node {place} with the status `{format_value(node.status)}`; known are "
                f"{', '.join(get_args(Status))}"
            )
        for name, most in (("log_prob", MOST_NATS), ("score", MOST_NATS), ("ranked_by", MOST_RANK)):
            if not abs(value := getattr(node, name)) <= most:
                yield f"has node {place} with the `{name}` {value}, which is not finite or beyond {most:g}"
        if node.log_prob > ABOVE_ZERO:
            yield f"has node {place} with the `log_prob` {node.log_prob}, which is above 0"
