"""Chooses the heads that a page shows first: an informative one in each attention."""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from pellucid.analysis.statistics import make_sink_mask, statistics
from pellucid.errors import DataError
from pellucid.tracing.attention import AttentionTrace
from pellucid.tracing.tokens import Token
from pellucid.tracing.trace import Trace
from pellucid.views.pictures.alignment import alignment_choice, alignment_state
from pellucid.views.view_options import ViewOptions

MOSTLY_SINK = 0.5
"""The share of weight on first and special tokens from which a head counts as a sink head."""


class Opening(NamedTuple):
    """Holds a page's initial selection for a trace."""

    heads: dict[str, list[int]]
    """A layer and a head for each attention."""
    alignment: dict[str, str]
    """The state of the alignment view, as in the page's address; empty if nothing is aligned."""


def choose_opening(trace: Trace, choice: ViewOptions) -> Opening:
    """Returns a page's initial selection for a trace.

    In cross-attention it is the alignment head, as in the alignment view; elsewhere the head of the lowest entropy
    among heads with less than half of their weight on first and special tokens.
    """
    heads = {name: sharpest_head(one, trace.sequences[one.keys]) for name, one in trace.attentions.items()}
    if "cross" in heads:
        with suppress(DataError):  # nothing to align
            aligned = alignment_choice(trace, ViewOptions(gold=choice.gold, extraction=choice.extraction))
            layer, head, _ = aligned
            heads |= {name: [layer or 0, head or 0] for name in ("cross", "search.cross") if name in heads}
            return Opening(heads, alignment_state(*aligned))
    return Opening(heads, {})


def sharpest_head(attention: AttentionTrace, keys: tuple[Token, ...]) -> list[int]:
    """Returns layer and head of the lowest entropy, of heads that are not sink heads, if there are any."""
    found = statistics(attention, make_sink_mask(keys))
    entropy = np.where(found["sink"] < MOSTLY_SINK, found["entropy"], np.inf)
    if np.isinf(entropy).all():
        entropy = found["sink"]  # all are sinks: choose the weakest
    return [int(place) for place in np.unravel_index(int(entropy.argmin()), entropy.shape)]
