"""Word alignments read off cross-attention.

A target token has two rows of weights: those of the step that writes it, and of the next one, which reads it. A single
head often aligns better by the second (Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine
Translation"), the mean of several by the first, and so does the date model of `pellucid demo` in all of its heads
(benchmarks/date_alignment.py). So the first is taken where nothing is said, and who looks for the best head tries both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from pellucid.analysis.mixture import mixed_weights
from pellucid.analysis.pharaoh import Link
from pellucid.analysis.words import check_fit
from pellucid.errors import ConfigError, DataError
from pellucid.tracing.trace import Array, Token, Trace

Method = Literal["argmax", "mutual", "threshold"]
Row = Literal["writes", "reads"]
Level = Literal["words", "tokens"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Extraction:
    """How links are read off weights."""

    method: Method = "argmax"
    """argmax: each target word to the source word with most weight; mutual: where that holds the other way round, too
    (the intersection); threshold: to each source word of at least so much weight."""
    threshold: float = 0.2
    """Of the weight, 0 to 1, for the method of that name."""
    row: Row = "writes"
    """Whose weights a target token is given: those of the step that writes it, or of the one that reads it."""
    level: Level = "words"
    """Whether words are aligned (the sum over a source word's tokens, the mean over a target word's) or tokens."""

    def __post_init__(self) -> None:
        for name, allowed in (("method", Method), ("row", Row), ("level", Level)):
            if getattr(self, name) not in get_args(allowed):
                choices = ", ".join(get_args(allowed))
                raise ConfigError(f"`{name}` {getattr(self, name)!r} is unknown", f"choose one of {choices}")
        if not 0 < self.threshold <= 1:
            raise ConfigError(f"`threshold` ({self.threshold}) must be above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class SoftAlignment:
    """How much each target word attends to each source word."""

    weights: Array
    """(..., targets, sources)."""
    targets: list[int]
    """The number of each row's word (or token) in its sentence."""
    sources: list[int]


def align(
    trace: Trace, layer: int | None = None, head: int | None = None, extraction: Extraction | None = None
) -> frozenset[Link]:
    """The links (source, target) by a head of the trace's cross-attention, or by the mean of several: mixed_weights().

    Raises DataError where there is no cross-attention or no such head, or its tokens make no words.
    """
    how = extraction or Extraction()
    soft = soft_alignment(mixed_weights(trace["cross"], layer, head), *_sides(trace), how)
    return extract_links(soft, how)


def soft_alignment(weights: Array, out: Sequence[Token], src: Sequence[Token], extraction: Extraction) -> SoftAlignment:
    """Cross-attention (..., T, S) between the words or tokens that can be aligned: special ones cannot.

    Args:
        weights: row t is of the step that writes `out[t]`, having read those before it.
    """
    check_fit(weights, out, src)
    rows, columns = (_units(tokens, extraction.level) for tokens in (out, src))
    later = 1 if extraction.row == "reads" else 0
    last = len(out) - 1  # a text without an end token is not read to its end
    by_row = [weights[..., [min(place + later, last) for place in places], :].mean(axis=-2) for places in rows.values()]
    stacked = np.stack(by_row, axis=-2) if by_row else weights[..., :0, :]  # (..., targets, S)
    summed = [stacked[..., places].sum(axis=-1) for places in columns.values()]
    merged = np.stack(summed, axis=-1) if summed else stacked[..., :0]  # (..., targets, sources)
    return SoftAlignment(merged.astype(np.float32), list(rows), list(columns))


def extract_links(soft: SoftAlignment, extraction: Extraction) -> frozenset[Link]:
    """The links (source, target) of (targets, sources); of equal weights the first counts."""
    weights = soft.weights
    if not weights.size:
        return frozenset()
    if extraction.method == "threshold":
        chosen = weights >= extraction.threshold
    else:
        best = weights.argmax(axis=1)
        chosen = np.arange(weights.shape[1]) == best[:, None]
        if extraction.method == "mutual":
            chosen &= np.arange(weights.shape[0])[:, None] == weights.argmax(axis=0)
    return frozenset((soft.sources[j], soft.targets[i]) for i, j in np.argwhere(chosen))


def _sides(trace: Trace) -> tuple[Sequence[Token], Sequence[Token]]:
    cross = trace["cross"]
    return trace.sequences[cross.queries], trace.sequences[cross.keys]


def _units(tokens: Sequence[Token], level: Level) -> dict[int, list[int]]:
    """The places of each word (or token) by its number."""
    usable = [(place, token) for place, token in enumerate(tokens) if not token.special]
    if level == "tokens":
        return {number: [place] for number, (place, _) in enumerate(usable)}
    units: dict[int, list[int]] = {}
    for place, token in usable:
        if token.word is not None:
            units.setdefault(token.word, []).append(place)
    if usable and not units:
        raise DataError("the tokens make no words to be aligned", "align tokens")
    return units
