"""The results of a validation, and the selection of the best weights."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pellucid.config import TrainConfig
from pellucid.training.state import RunState

POINT = 1.0
"""One BLEU, one chrF, or one percent of accuracy: results on one corpus that differ by less are equal. So a BLEU below
it counts as 0: it comes from a few 4-grams that agree by chance."""


@dataclass(frozen=True)
class Validation:
    """The results of a validation: mean loss per token (nats; for a classifier per text), BLEU and chrF if sentences
    were translated, and the accuracy (0 to 1) of a classifier."""

    loss: float
    bleu: float | None = None
    sample: str = ""
    accuracy: float | None = None
    chrf: float | None = None
    bits_per_byte: float | None = None
    """The loss in bits per byte of the target's UTF-8, line ends included: comparable between any vocabularies."""
    tokenizer: str = "13a"
    """BLEU's tokenizer."""
    pairs: Mapping[str, "Validation"] = field(default_factory=dict)
    """The results per language pair, as "de-en", if there are several."""

    def score(self, by: str = "score") -> list[float]:
        """Returns the score to maximize: BLEU or accuracy, then the negative loss as a tie-breaker.

        If `by` is "chrf" or "loss", that replaces BLEU. BLEU below a POINT counts as 0, so that the loss decides until
        BLEU is meaningful.
        """
        # Weights that give NaN are worse than all others.
        loss = self.loss if math.isfinite(self.loss) else math.inf
        if by == "loss":
            return [-loss]
        if by == "chrf" and self.chrf is not None:
            return [self.chrf, -loss]
        bleu = self.bleu if self.bleu is not None and self.bleu >= POINT else None
        return [bleu or self.accuracy or 0.0, -loss]

    def __str__(self) -> str:
        bits = "" if self.bits_per_byte is None else f", {self.bits_per_byte:.3f} bits per byte"
        cut = "" if self.tokenizer == "13a" else f", tok:{self.tokenizer}"
        bleu = "" if self.bleu is None else f", BLEU {self.bleu:.2f} (greedy{cut})"
        chrf = "" if self.chrf is None else f", chrF {self.chrf:.2f}"
        accuracy = "" if self.accuracy is None else f", accuracy {100 * self.accuracy:.2f} %"
        return f"validation loss {self.loss:.3f}{bits}{bleu}{chrf}{accuracy}"

    @property
    def of_pairs(self) -> str:
        """Returns the results as text, one line per language pair."""
        width = max(map(len, self.pairs), default=0)
        lines = (
            f"  {name:<{width}}  loss {of.loss:.3f}" + ("" if of.bleu is None else f", BLEU {of.bleu:.2f}")
            for name, of in self.pairs.items()
        )
        return "\n".join(lines)

    @property
    def numbers(self) -> dict[str, float | None]:
        """Returns the numbers for metrics.jsonl."""
        others = {"accuracy": self.accuracy, "chrf": self.chrf, "bits_per_byte": self.bits_per_byte}
        known = {name: value for name, value in others.items() if value is not None}
        of_pairs: dict[str, float | None] = {}
        for name, of in self.pairs.items():
            of_pairs |= {f"loss_{name}": of.loss, f"bleu_{name}": of.bleu}
        return {"loss": self.loss, "bleu": self.bleu, **known, **of_pairs}


def update_best(found: Validation, state: RunState, config: TrainConfig) -> bool:
    """Records the validation of a step in `state`; returns True if it is the best so far."""
    by = config.best_metric
    best = None
    if state.best_loss is not None:
        best = Validation(state.best_loss, state.best_bleu, accuracy=state.best_accuracy, chrf=state.best_chrf)
    better = best is None or found.score(by) > best.score(by)
    if better:
        state.best_step = state.step
        set_result(found, state)
    state.bad_validations = 0 if better else state.bad_validations + 1
    lower = state.lowest_loss is None or found.loss < state.lowest_loss
    state.bad_losses = 0 if lower else state.bad_losses + 1
    state.lowest_loss = found.loss if lower else state.lowest_loss
    if config.average > 1:
        # On a tie the earlier step is first.
        ranked = sorted([*state.ranking, [*found.score(by), -state.step]], reverse=True)
        state.ranking = ranked[: config.average]
    return better


def set_result(found: Validation, state: RunState) -> None:
    """Records the scores of the run's model."""
    state.best_loss, state.best_bleu = found.loss, found.bleu
    state.best_accuracy, state.best_chrf = found.accuracy, found.chrf


def select_best(found: Sequence[Validation], by: str = "score") -> int:
    """Returns the index of the weights to publish.

    Among the weights less than a point below the highest BLEU (or accuracy) it selects the lowest loss, on a tie the
    first. If `by` is "chrf", chrF replaces BLEU; if "loss", the loss alone decides.

    Between weights of one run a point is more than the effect of the choice of validation sentences; the loss, a mean
    over all their tokens, distinguishes smaller differences.
    """
    points = [_points(each, by) for each in found]
    losses = [each.loss if math.isfinite(each.loss) else math.inf for each in found]
    near = [place for place, score in enumerate(points) if max(points) - score < POINT]
    return min(near, key=lambda place: losses[place])


def _points(found: Validation, by: str) -> float:
    """Returns a candidate's score from 0 to 100; 0 if the loss alone decides."""
    if by == "loss":
        return 0.0
    if by == "chrf" and found.chrf is not None:
        return found.chrf
    return found.bleu or 100 * (found.accuracy or 0.0)
