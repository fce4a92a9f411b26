"""Filters the teachers' translations for the student: drops useless and wrong ones."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pellucid.errors import ConfigError, format_argument
from pellucid.synthetic_data.teacher_translation import TeacherTranslation

Reason = Literal["empty", "copy", "flag", "length", "score", "repeated"]
REASONS: dict[Reason, str] = {
    "empty": "empty",
    "copy": "copies of their source",
    "flag": "flagged",
    "length": "much longer or shorter than the others for such a source",
    "score": "of the lowest log-probability per token",
    "repeated": "duplicates",
}
"""The reasons to drop a translation, in the order in which they are checked."""
MEASURED = np.dtype([("empty", "?"), ("copy", "?"), ("flag", "?"), ("ratio", "f8"), ("score", "f8")])
SMOOTHING = 10
"""Characters added to both lengths before they are compared: short texts vary much in length."""


@dataclass(frozen=True, kw_only=True)
class TranslationFilter:
    """The rules by which translations are dropped. Raises ConfigError for an invalid value."""

    drop_worst: float = 0.05
    """The share of each teacher's translations to drop: the lowest log-probabilities per token."""
    length_ratio: float = 2.5
    """The largest factor by which a translation's length may differ, either way, from the usual length for its
    source.
    """
    keep_copies: bool = False
    """If True, a translation may equal its source, which is right for tasks such as normalization or correction."""

    def __post_init__(self) -> None:
        if not 0 <= self.drop_worst < 1:
            raise ConfigError(
                f"{format_argument('drop_worst', self.drop_worst)} must be at least 0 and below 1",
                "use a share: 0.05 drops 5 % of the translations",
            )
        if not self.length_ratio > 1:
            raise ConfigError(
                f"{format_argument('length_ratio', self.length_ratio)} must be above 1",
                "use a factor: 2.5 allows translations of two and a half times the usual length",
            )


@dataclass(frozen=True)
class FilteredTranslations:
    """The result of filtering one teacher's translations."""

    kept: npt.NDArray[np.bool_]
    """True for each candidate that is kept, in the order of lines and of their candidates."""
    counts: dict[Reason, int]
    """The number of dropped candidates by reason."""
    worst: float | None
    """The log-probability per token below which a candidate is dropped; None if there is no such bound."""
    flagged: Mapping[str, int]
    """The number of candidates with each of the flags that drop one."""


def filter_translations(
    lines: Iterable[tuple[str, Sequence[TeacherTranslation]]], rules: TranslationFilter, flags: Collection[str] = ()
) -> FilteredTranslations:
    """Returns the result of filtering a teacher's translations of lines of text with their candidates.

    Lengths are compared in characters, with the median of this teacher's own ratios; scores with its other scores,
    since the scores of two teachers differ. Candidates with one of `flags` are dropped, too. Duplicates are left to the
    caller that combines several. A candidate takes 19 bytes of memory.
    """
    seen = Counter[str]()
    rows = (_measure(source, found, rules, flags, seen) for source, candidates in lines for found in candidates)
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
    return FilteredTranslations(
        kept & ~low, {reason: int(np.count_nonzero(each)) for reason, each in found.items()}, worst, seen
    )


def _measure(
    source: str, candidate: TeacherTranslation, rules: TranslationFilter, flags: Collection[str], seen: Counter[str]
) -> tuple[bool, bool, bool, float, float]:
    """Returns whether it is empty, a copy, or flagged, the logarithm of its length by its source's, and its score.

    The first reason alone counts. `seen` counts the flags.
    """
    source, text = source.strip(), candidate.text.strip()
    ratio = np.log((len(text) + SMOOTHING) / (len(source) + SMOOTHING))
    is_copy = bool(text) and text == source and not rules.keep_copies
    found = [flag for flag in candidate.flags if flag in flags] if text and not is_copy else []
    seen.update(found)
    return not text, is_copy, bool(found), float(ratio), candidate.score / max(1, candidate.length)
