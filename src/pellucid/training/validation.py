"""What a validation found, and which of them are the best."""

import math
from dataclasses import dataclass

from pellucid.config import TrainConfig
from pellucid.training.state import RunState


@dataclass(frozen=True)
class Validation:
    """What validation found: mean loss per token (nats; of a classifier per text), BLEU where sentences were
    translated, and the part of the texts (0 to 1) that a classifier got right."""

    loss: float
    bleu: float | None = None
    sample: str = ""
    accuracy: float | None = None

    def score(self, by: str = "score") -> list[float]:
        """What is to be highest: BLEU or accuracy, and of equal ones the negative loss; or that alone."""
        # Weights that give NaN are worse than all others.
        loss = self.loss if math.isfinite(self.loss) else math.inf
        return [-loss] if by == "loss" else [self.bleu or self.accuracy or 0.0, -loss]

    def __str__(self) -> str:
        bleu = "" if self.bleu is None else f", BLEU {self.bleu:.2f} (greedy)"
        accuracy = "" if self.accuracy is None else f", accuracy {100 * self.accuracy:.2f} %"
        return f"validation loss {self.loss:.3f}{bleu}{accuracy}"

    @property
    def numbers(self) -> dict[str, float | None]:
        """As the metrics have them."""
        accuracy = {} if self.accuracy is None else {"accuracy": self.accuracy}
        return {"loss": self.loss, "bleu": self.bleu, **accuracy}


def take_in(found: Validation, state: RunState, config: TrainConfig) -> bool:
    """Notes in `state` what was found at its step; returns whether it is the best so far."""
    by = config.best_by
    best = None
    if state.best_loss is not None:
        best = Validation(state.best_loss, state.best_bleu, accuracy=state.best_accuracy)
    better = best is None or found.score(by) > best.score(by)
    if better:
        set_best(found, state)
    state.bad_validations = 0 if better else state.bad_validations + 1
    if config.average_of == "best" and config.average > 1:
        # Of equal ones the earlier stands first.
        ranked = sorted([*state.ranking, [*found.score(by), -state.step]], reverse=True)
        state.ranking = ranked[: config.average]
    return better


def set_best(found: Validation, state: RunState) -> None:
    """Notes what was found at this step as the best."""
    state.best_step, state.best_loss = state.step, found.loss
    state.best_bleu, state.best_accuracy = found.bleu, found.accuracy
