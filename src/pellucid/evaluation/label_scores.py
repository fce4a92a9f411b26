"""The scores of a classifier: accuracy with a confidence interval, and F1."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pellucid.errors import DataError
from pellucid.evaluation.scores import Interval

Z = 1.959963984540054  # 95 % of the normal distribution lies within this many standard deviations


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelScores:
    """The scores of predicted labels. Scores and the ends of intervals run from 0 to 100."""

    accuracy: float
    accuracy_interval: Interval
    """The 95 % Wilson interval."""
    f1: float
    """Macro F1: the unweighted mean of all labels' F1."""
    f1_by_label: dict[str, float]
    texts: int

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a dict that survives a round trip through JSON unchanged."""
        return asdict(self) | {"accuracy_interval": list(self.accuracy_interval)}

    def report(self) -> str:
        """Returns the scores as aligned lines for a terminal."""
        low, high = self.accuracy_interval
        by_label = ", ".join(f"{label} {f1:.2f}" for label, f1 in self.f1_by_label.items())
        return "\n".join(
            [f"accuracy  {self.accuracy:6.2f} ± {(high - low) / 2:<5.2f}  [{low:6.2f}, {high:6.2f}]",
             f"F1        {self.f1:6.2f}  the mean of: {by_label}",
             f"{self.texts:,} texts; 95 % Wilson interval"]
        )  # fmt: skip


def score_labels(found: Sequence[str], right: Sequence[str]) -> LabelScores:
    """Scores predicted labels against the right ones.

    F1 of a label is 2 * both / (found + right), from the counts of lines where it is predicted and right, predicted,
    and right. Raises DataError if the two sides differ in length or are empty.
    """
    if len(found) != len(right):
        raise DataError(f"{len(found)} labels cannot be scored against {len(right)} right ones")
    if not found:
        raise DataError("nothing to score: 0 labels")
    hits = sum(a == b for a, b in zip(found, right, strict=True))
    by_label = {label: _f1(label, found, right) for label in sorted({*found, *right})}
    return LabelScores(
        accuracy=100 * hits / len(right),
        accuracy_interval=wilson_interval(hits, len(right)),
        f1=sum(by_label.values()) / len(by_label),
        f1_by_label=by_label,
        texts=len(right),
    )


def wilson_interval(hits: int, trials: int) -> Interval:
    """Returns the 95 % confidence interval of a proportion, in percent.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
    """
    p, z2 = hits / trials, Z * Z
    centre = (p + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z / (1 + z2 / trials) * math.sqrt(p * (1 - p) / trials + z2 / (4 * trials * trials))
    # Rounding may put an end slightly beyond 0 or 1.
    return 100 * max(0.0, centre - half), 100 * min(1.0, centre + half)


def _f1(label: str, found: Sequence[str], right: Sequence[str]) -> float:
    both = sum(a == label == b for a, b in zip(found, right, strict=True))
    return 200 * both / (sum(a == label for a in found) + sum(b == label for b in right))
