"""Alternatives at a position: translations that begin alike, and part at the next token."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pellucid.config import DecodeConfig
from pellucid.config.decode import CEILINGS
from pellucid.decoding.beam import Search
from pellucid.decoding.constraints import Constraints
from pellucid.decoding.engine import NEAR_TIE
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.next_tokens import NextTokens
from pellucid.errors import ConfigError, DataError, argument, shown
from pellucid.text.tokenizer import CompleteTokenizer

if TYPE_CHECKING:
    from pellucid.tasks.segments import Segment

Searching = Callable[[list[list[int]], DecodeConfig, Search | None, Constraints | None], list[list[Hypothesis]]]
"""Finds the n best hypotheses of each piece, best first."""
MOST = int(CEILINGS["beam_size"])


@dataclass(frozen=True)
class Branch:
    """The token by which a translation parts from its alternatives."""

    token: str
    """The token behind what all of them begin with; the end token, where a translation ends there."""
    probability: float
    """Its probability there, given the source and what they begin with; of several models exp of their mean
    log-probability."""


def check_branches(count: int, lines: Sequence[Sequence["Segment"]], **others: object) -> None:
    """Raises ConfigError for a number of alternatives that cannot be, and for options that choose in another way;
    DataError for a line that is translated in several parts."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        raise ConfigError(f"{argument('alternatives', count)} must be a whole number from 1 to {MOST:,}", "5 are usual")
    for name, value in others.items():
        if value is not None:
            raise ConfigError(
                f"`{name}=` chooses among translations, and `alternatives={count}` says which there are",
                "leave one of them out",
            )
    for line in lines:
        if (parts := sum(len(segment.pieces) for segment in line)) > 1:
            raise DataError(
                f"`{shown(line[0].source)}` begins a line that is translated in {parts} parts, and alternatives are at "
                "a place of one translation",
                'give a sentence a line, or `segment="off"`, and shorten what is too long for one piece',
            )


def branches(
    searched: Searching,
    target: CompleteTokenizer,
    pieces: list[list[int]],
    config: DecodeConfig,
    constraints: Constraints | None,
    count: int,
) -> list[list[tuple[Hypothesis, Branch]]]:
    """Returns for each piece the best translation behind each of the `count` most probable next tokens, best first.

    The next token is the one behind what `constraints` has a piece's translation begin with.
    """
    constraints = constraints or Constraints()
    begun = constraints.prefixes or ((),) * len(pieces)
    one = replace(config, n_best=1)
    # Nobody can choose what stands for no word, nor end where terms are lacking, which the search that goes on writes.
    unfinished = [bool(constraints.lacking(place)) for place in range(len(pieces))]
    by = NextTokens(count + any(unfinished), [len(prefix) for prefix in begun])
    first = replace(one, beam_size=1, suppress=(*config.suppress, target.unk_id))
    next_tokens = [
        [token for token in found if not (lacks and token.ids[len(prefix)] == target.eos_id)][:count]
        for found, prefix, lacks in zip(
            searched(pieces, first, by, replace(constraints, terms=())), begun, unfinished, strict=True
        )
    ]
    places = [place for place, found in enumerate(next_tokens) for _ in found]
    forced = tuple(tuple(first.ids) for found in next_tokens for first in found)
    best = searched([pieces[place] for place in places], one, None, replace(constraints.of(places), prefixes=forced))
    ahead, rows = iter(best), []
    for place, (prefix, found) in enumerate(zip(begun, next_tokens, strict=True)):
        row = [
            (next(ahead)[0], Branch(target.tokens([token.ids[len(prefix)]])[0], math.exp(token.score)))
            for token in found
        ]
        row.sort(key=lambda each: -each[0].rank(config.length_penalty))
        if len(pieces) > 1 and any(_is_near(a, b, config.length_penalty) for (a, _), (b, _) in pairwise(row)):
            (row,) = branches(searched, target, [pieces[place]], config, constraints.of([place]), count)
        rows.append(row)
    return rows


def _is_near(first: Hypothesis, second: Hypothesis, length_penalty: float) -> bool:
    """Tells whether rounding could have two hypotheses rank the other way about."""
    gap = first.rank(length_penalty) - second.rank(length_penalty)
    return gap * min(first.length, second.length) ** length_penalty < NEAR_TIE
