"""What a validation found, and which of them are the best."""

import math
from dataclasses import dataclass

from pellucid.config import TrainConfig
from pellucid.training.state import RunState


@dataclass(frozen=True)
class Validation:
    """What validation found: mean loss per token (nats), and BLEU where sentences were translated."""

    loss: float
    bleu: float | None = None
    sample: str = ""

    def score(self, by: str = "bleu") -> list[float]:
        """What is to be highest: BLEU, and of equal ones (as long as it is 0) the negative loss; or that alone."""
        # Weights that give NaN are worse than all others.
        loss = self.loss if math.isfinite(self.loss) else math.inf
        return [-loss] if by == "loss" else [self.bleu or 0.0, -loss]

    def __str__(self) -> str:
        return f"validation loss {self.loss:.3f}" + ("" if self.bleu is None else f", BLEU {self.bleu:.2f} (greedy)")


def take_in(found: Validation, state: RunState, config: TrainConfig) -> bool:
    """Notes in `state` what was found at its step; returns whether it is the best so far."""
    by = config.best_by
    best = None if state.best_loss is None else Validation(state.best_loss, state.best_bleu)
    better = best is None or found.score(by) > best.score(by)
    if better:
        state.best_step, state.best_loss, state.best_bleu = state.step, found.loss, found.bleu
    state.bad_validations = 0 if better else state.bad_validations + 1
    if config.average_of == "best" and config.average > 1:
        # Of equal ones the earlier stands first.
        ranked = sorted([*state.ranking, [*found.score(by), -state.step]], reverse=True)
        state.ranking = ranked[: config.average]
    return better
