"""Chooses what of the teachers' translations a student learns: all but what would teach it nothing, or wrong things."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pellucid.distillation.teaching import Candidate
from pellucid.errors import ConfigError, argument

Reason = Literal["empty", "copy", "flag", "length", "score", "repeated"]
REASONS: dict[Reason, str] = {
    "empty": "empty",
    "copy": "copies of their source",
    "flag": "flagged",
    "length": "much longer or shorter than the others for such a source",
    "score": "of the lowest log-probability a token",
    "repeated": "there already",
}
"""The reasons to leave a translation out, in the order in which they are looked for."""
MEASURED = np.dtype([("empty", "?"), ("copy", "?"), ("flag", "?"), ("ratio", "f8"), ("score", "f8")])
SMOOTHING = 10
"""Characters that are added to both sides before they are compared: among short texts lengths differ much."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The rules by which translations are left out. Raises ConfigError for a value that cannot work."""

    drop_worst: float = 0.05
    """The share of each teacher's translations that goes, those of the lowest log-probability a token."""
    length_ratio: float = 2.5
    """The factor by which a translation's length may differ, either way, from what is usual for its source's."""
    keep_copies: bool = False
    """True: a translation may be its source, which is right where the task is to normalise or to correct."""

    def __post_init__(self) -> None:
        if not 0 <= self.drop_worst < 1:
            raise ConfigError(
                f"{argument('drop_worst', self.drop_worst)} must be at least 0 and below 1",
                "it is a share: 0.05 leaves out five of a hundred translations",
            )
        if not self.length_ratio > 1:
            raise ConfigError(
                f"{argument('length_ratio', self.length_ratio)} must be above 1",
                "it is a factor: at 2.5 a translation may be two and a half times as long as is usual",
            )


@dataclass(frozen=True)
class Judged:
    """Holds which translations of one teacher are kept, and why others are not."""

    kept: npt.NDArray[np.bool_]
    """True for each candidate, in the order of lines and of their candidates, that is not left out."""
    counts: dict[Reason, int]
    """The number that is left out, by the reason."""
    worst: float | None
    """The log-probability a token below which one is left out; None: no such bound."""


def judge(lines: Iterable[tuple[str, Sequence[Candidate]]], rules: Selection, flags: Collection[str] = ()) -> Judged:
    """Returns which of a teacher's translations are kept, of lines of text with their candidates.

    Lengths are compared in characters, with the median of this teacher's own ratios; scores with its other scores,
    since two teachers' are not alike. What has one of `flags` is left out, too. What repeats another translation is for
    whoever puts several together. A candidate takes 19 bytes of memory.
    """
    rows = (_measured(source, found, rules, flags) for source, candidates in lines for found in candidates)
    table = np.fromiter(rows, MEASURED)
    empty, copy, flagged, ratio, score = (table[name] for name in MEASURED.names or ())
    kept = ~(empty | copy | flagged)
    usual = float(np.median(ratio[kept])) if kept.any() else 0.0
    unusual = kept & (np.abs(ratio - usual) > np.log(rules.length_ratio))
    kept &= ~unusual
    count = int(rules.drop_worst * np.count_nonzero(kept))
    worst = float(np.sort(score[kept])[count]) if count else None
    low = kept & (score < worst) if worst is not None else np.zeros_like(kept)
    found: dict[Reason, npt.NDArray[np.bool_]] = {
        "empty": empty, "copy": copy, "flag": flagged, "length": unusual, "score": low,
    }  # fmt: skip
    return Judged(kept & ~low, {reason: int(np.count_nonzero(each)) for reason, each in found.items()}, worst)


def _measured(
    source: str, candidate: Candidate, rules: Selection, flags: Collection[str]
) -> tuple[bool, bool, bool, float, float]:
    """Returns whether it is empty, a copy, or flagged, the logarithm of its length by its source's, and its score.

    The first reason alone counts.
    """
    source, text = source.strip(), candidate.text.strip()
    ratio = np.log((len(text) + SMOOTHING) / (len(source) + SMOOTHING))
    is_copy = bool(text) and text == source and not rules.keep_copies
    flagged = bool(text) and not is_copy and any(flag in flags for flag in candidate.flags)
    return not text, is_copy, flagged, float(ratio), candidate.score / max(1, candidate.length)
