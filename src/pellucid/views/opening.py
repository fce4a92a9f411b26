"""Chooses the heads that a page opens with: in each attention one that has something to say."""

from contextlib import suppress

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


def opening_heads(trace: Trace, choice: Choice) -> dict[str, list[int]]:
    """Returns a layer and a head for each attention of a trace.

    In cross-attention it is the head that aligns, as the alignment view shows it; elsewhere the sharpest, that of the
    least entropy, among those with less than half of their weight on first and special tokens.
    """
    found = {name: sharpest_head(one, trace.sequences[one.keys]) for name, one in trace.attentions.items()}
    if "cross" in found:
        with suppress(DataError):  # nothing to align
            layer, head, _ = alignment_choice(trace, Choice(gold=choice.gold, extraction=choice.extraction))
            found |= {name: [layer or 0, head or 0] for name in ("cross", "search.cross") if name in found}
    return found


def opening_alignment(trace: Trace, choice: Choice) -> dict[str, str]:
    """Returns what a page's alignment view opens with, as its address spells it; nothing where nothing is aligned."""
    with suppress(DataError):
        return alignment_state(*alignment_choice(trace, Choice(gold=choice.gold, extraction=choice.extraction)))
    return {}


def sharpest_head(attention: AttentionTrace, keys: tuple[Token, ...]) -> list[int]:
    """Returns layer and head of the least entropy, of those that are no sinks where there are some."""
    found = statistics(attention, sink_columns(keys))
    entropy = np.where(found["sink"] < MOSTLY_SINK, found["entropy"], np.inf)
    if np.isinf(entropy).all():
        entropy = found["sink"]  # all are sinks: the one that is least
    return [int(place) for place in np.unravel_index(int(entropy.argmin()), entropy.shape)]
