"""Next-token alternatives: translations with a common prefix that differ in the token after it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pellucid.config import DecodeConfig
from pellucid.decoding.batched_search import NEAR_TIE
from pellucid.decoding.beam import SearchFunction
from pellucid.decoding.constraints import Constraints
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.next_tokens import NextTokens
from pellucid.errors import DataError, format_value
from pellucid.text.tokenizer import TokenizerBase

if TYPE_CHECKING:
    from pellucid.tasks.segmentation import Segment

Searching = Callable[[list[list[int]], DecodeConfig, SearchFunction | None, Constraints | None], list[list[Hypothesis]]]
"""Returns the n best hypotheses of each piece, best first."""


@dataclass(frozen=True)
class NextToken:
    """The token in which a translation differs from its alternatives."""

    token: str
    """The token after the common prefix; the end token, if a translation ends there."""
    probability: float
    """Its probability, given the source and the prefix; for an ensemble exp of the mean log-probability."""


def check_whole(lines: Sequence[Sequence["Segment"]]) -> None:
    """Raises DataError for a line that is translated in several parts."""
    for line in lines:
        if (parts := sum(len(segment.pieces) for segment in line)) > 1:
            raise DataError(
                f"`{format_value(line[0].source)}` begins a line that is translated in {parts} parts, and "
                "alternatives belong to a position of one translation",
                'write one sentence per line, or set `segment="off"`, and shorten sentences that are too long',
            )


def expand_next_tokens(
    searched: Searching,
    target: TokenizerBase,
    pieces: list[list[int]],
    config: DecodeConfig,
    constraints: Constraints | None,
    count: int,
) -> list[list[tuple[Hypothesis, NextToken]]]:
    """Returns for each piece the best translation after each of the `count` most probable next tokens, best first.

    The next token follows the piece's prefix in `constraints`.
    """
    constraints = constraints or Constraints()
    begun = constraints.prefixes or ((),) * len(pieces)
    one = replace(config, n_best=1)
    # The unknown token is no alternative, nor is the end token while terms are missing: the second search writes them.
    unfinished = [bool(constraints.count_missing_tokens(place)) for place in range(len(pieces))]
    by = NextTokens(count + any(unfinished), [len(prefix) for prefix in begun])
    first = replace(one, beam_size=1, suppress_tokens=(*config.suppress_tokens, target.unk_id))
    next_tokens = [
        [token for token in found if not (lacks and token.ids[len(prefix)] == target.eos_id)][:count]
        for found, prefix, lacks in zip(
            searched(pieces, first, by, replace(constraints, terms=())), begun, unfinished, strict=True
        )
    ]
    places = [place for place, found in enumerate(next_tokens) for _ in found]
    forced = tuple(tuple(first.ids) for found in next_tokens for first in found)
    best = searched(
        [pieces[place] for place in places], one, None, replace(constraints.select(places), prefixes=forced)
    )
    ahead, rows = iter(best), []
    for place, (prefix, found) in enumerate(zip(begun, next_tokens, strict=True)):
        row = [
            (next(ahead)[0], NextToken(target.tokens([token.ids[len(prefix)]])[0], math.exp(token.score)))
            for token in found
        ]
        row.sort(key=lambda each: -each[0].rank(config.length_penalty))
        if len(pieces) > 1 and any(_is_near(a, b, config.length_penalty) for (a, _), (b, _) in pairwise(row)):
            (row,) = expand_next_tokens(searched, target, [pieces[place]], config, constraints.select([place]), count)
        rows.append(row)
    return rows


def _is_near(first: Hypothesis, second: Hypothesis, length_penalty: float) -> bool:
    """Returns True if rounding could exchange the ranks of two hypotheses."""
    gap = first.rank(length_penalty) - second.rank(length_penalty)
    return gap * min(first.length, second.length) ** length_penalty < NEAR_TIE
