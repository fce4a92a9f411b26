"""Holds what a validation found, and says which weights are the best."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pellucid.config import TrainConfig
from pellucid.training.state import RunState

POINT = 1.0
"""One BLEU, one chrF, or one percent of accuracy: results of one corpus that are nearer to each other are equal. So a
BLEU below it is none: a few runs of four words that happen to agree."""


@dataclass(frozen=True)
class Validation:
    """Holds what a validation found: mean loss per token (nats; of a classifier per text), BLEU and chrF where
    sentences were translated, and the part of the texts (0 to 1) that a classifier got right."""

    loss: float
    bleu: float | None = None
    sample: str = ""
    accuracy: float | None = None
    chrf: float | None = None
    bits_per_byte: float | None = None
    """The loss in bits for a byte of the target's UTF-8, line ends included: compares models of any vocabulary."""
    tokenizer: str = "13a"
    """The tokenizer by which BLEU cut the text."""
    pairs: Mapping[str, "Validation"] = field(default_factory=dict)
    """The same of each pair of languages, as "de-en", where there are several."""

    def score(self, by: str = "score") -> list[float]:
        """Returns what is to be highest: BLEU or accuracy, and of equal ones the negative loss.

        chrF, or the loss, stands in BLEU's place where `by` says so. BLEU below a POINT counts as 0, so that the loss
        decides until BLEU says something.
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
        bits = "" if self.bits_per_byte is None else f", {self.bits_per_byte:.3f} bits a byte"
        cut = "" if self.tokenizer == "13a" else f", tok:{self.tokenizer}"
        bleu = "" if self.bleu is None else f", BLEU {self.bleu:.2f} (greedy{cut})"
        chrf = "" if self.chrf is None else f", chrF {self.chrf:.2f}"
        accuracy = "" if self.accuracy is None else f", accuracy {100 * self.accuracy:.2f} %"
        return f"validation loss {self.loss:.3f}{bits}{bleu}{chrf}{accuracy}"

    @property
    def of_pairs(self) -> str:
        """Says what was found for each pair of languages, a line each."""
        width = max(map(len, self.pairs), default=0)
        lines = (
            f"  {name:<{width}}  loss {of.loss:.3f}" + ("" if of.bleu is None else f", BLEU {of.bleu:.2f}")
            for name, of in self.pairs.items()
        )
        return "\n".join(lines)

    @property
    def numbers(self) -> dict[str, float | None]:
        """Returns its numbers as the metrics have them."""
        others = {"accuracy": self.accuracy, "chrf": self.chrf, "bits_per_byte": self.bits_per_byte}
        known = {name: value for name, value in others.items() if value is not None}
        of_pairs: dict[str, float | None] = {}
        for name, of in self.pairs.items():
            of_pairs |= {f"loss_{name}": of.loss, f"bleu_{name}": of.bleu}
        return {"loss": self.loss, "bleu": self.bleu, **known, **of_pairs}


def record(found: Validation, state: RunState, config: TrainConfig) -> bool:
    """Notes in `state` what was found at its step; returns whether it is the best so far."""
    by = config.best_by
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
        # Of equal ones the earlier stands first.
        ranked = sorted([*state.ranking, [*found.score(by), -state.step]], reverse=True)
        state.ranking = ranked[: config.average]
    return better


def set_result(found: Validation, state: RunState) -> None:
    """Notes what was found as what the run's model comes to."""
    state.best_loss, state.best_bleu = found.loss, found.bleu
    state.best_accuracy, state.best_chrf = found.accuracy, found.chrf


def winner(found: Sequence[Validation], by: str = "score") -> int:
    """Returns the place of the weights to publish.

    Of those less than a point below the highest BLEU (or accuracy) they are the ones with the lowest loss, the first of
    equal ones. With `by` "chrf" chrF stands in BLEU's place, with "loss" the loss alone decides.

    Between weights of one run a point is more than the choice of the validation sentences makes; the loss, a mean over
    all their tokens, tells smaller differences.
    """
    points = [_points(each, by) for each in found]
    losses = [each.loss if math.isfinite(each.loss) else math.inf for each in found]
    near = [place for place, score in enumerate(points) if max(points) - score < POINT]
    return min(near, key=lambda place: losses[place])


def _points(found: Validation, by: str) -> float:
    """Returns what a candidate has of a hundred; nothing where the loss alone decides."""
    if by == "loss":
        return 0.0
    if by == "chrf" and found.chrf is not None:
        return found.chrf
    return found.bleu or 100 * (found.accuracy or 0.0)
