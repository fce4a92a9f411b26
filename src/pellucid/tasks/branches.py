"""Alternatives at a position: translations that begin alike, and part at the next token."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pellucid.config import DecodeConfig
from pellucid.config.decode import CEILINGS
from pellucid.decoding.constraints import Constraints
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.decoding.next_tokens import NextTokens
from pellucid.errors import ConfigError, DataError, argument

if TYPE_CHECKING:
    from pellucid.tasks.segments import Segment
    from pellucid.tasks.translator import Translator

MOST = int(CEILINGS["beam_size"])


@dataclass(frozen=True)
class Branch:
    """The token by which a translation parts from its alternatives."""

    token: str
    """The token behind what all of them begin with; the end token, where a translation ends there."""
    probability: float
    """Its probability there, given the source and what they begin with."""


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
    for number, line in enumerate(lines, start=1):
        if (parts := sum(len(segment.pieces) for segment in line)) > 1:
            raise DataError(
                f"line {number} is translated in {parts} parts, and alternatives are at a place of one translation",
                'give a sentence a line, or `segment="off"`',
            )


def branches(
    translator: "Translator",
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
    by = NextTokens(count, [len(prefix) for prefix in begun])
    next_tokens = translator._searched(pieces, replace(one, beam_size=1), by, constraints)
    places = [place for place, found in enumerate(next_tokens) for _ in found]
    forced = tuple(tuple(first.ids) for found in next_tokens for first in found)
    best = translator._searched(
        [pieces[place] for place in places], one, None, replace(constraints.of(places), prefixes=forced)
    )
    target, ahead = translator.tokenizers.target, iter(best)
    rows = []
    for prefix, found in zip(begun, next_tokens, strict=True):
        row = [
            (next(ahead)[0], Branch(target.tokens([first.ids[len(prefix)]])[0], math.exp(first.score)))
            for first in found
        ]
        rows.append(sorted(row, key=lambda each: -each[0].rank(config.length_penalty)))
    return rows
