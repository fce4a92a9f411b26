"""Chooses the heads that a page opens with: in each attention one that has something to say."""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from pellucid.analysis.statistics import sink_columns, statistics
from pellucid.errors import DataError
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.choice import Choice
from pellucid.views.pictures.alignment import alignment_choice, alignment_state

MOSTLY_SINK = 0.5
"""The weight on first and special tokens from which a head says little about the others."""


class Opening(NamedTuple):
    """Says what a page opens with of a trace until somebody chooses."""

    heads: dict[str, list[int]]
    """A layer and a head for each attention."""
    alignment: dict[str, str]
    """The state of the alignment view, as the page's address spells it; empty where nothing is aligned."""


def opening_of(trace: Trace, choice: Choice) -> Opening:
    """Chooses what a page opens with of a trace.

    In cross-attention it is the head that aligns, as the alignment view shows it; elsewhere the sharpest, that of the
    least entropy, among those with less than half of their weight on first and special tokens.
    """
    heads = {name: sharpest_head(one, trace.sequences[one.keys]) for name, one in trace.attentions.items()}
    if "cross" in heads:
        with suppress(DataError):  # nothing to align
            aligned = alignment_choice(trace, Choice(gold=choice.gold, extraction=choice.extraction))
            layer, head, _ = aligned
            heads |= {name: [layer or 0, head or 0] for name in ("cross", "search.cross") if name in heads}
            return Opening(heads, alignment_state(*aligned))
    return Opening(heads, {})


def sharpest_head(attention: AttentionTrace, keys: tuple[Token, ...]) -> list[int]:
    """Returns layer and head of the least entropy, of those that are no sinks where there are some."""
    found = statistics(attention, sink_columns(keys))
    entropy = np.where(found["sink"] < MOSTLY_SINK, found["entropy"], np.inf)
    if np.isinf(entropy).all():
        entropy = found["sink"]  # all are sinks: the one that is least
    return [int(place) for place in np.unravel_index(int(entropy.argmin()), entropy.shape)]
