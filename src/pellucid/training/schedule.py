"""Section 5.3: the learning rate as a pure function of the step."""

import math
import sys
from dataclasses import dataclass

from pellucid.config import TrainConfig


@dataclass(frozen=True)
class Ending:
    """How a run ends: after step `falls_at` a stable rate begins to fall, and `last_step` is the last."""

    falls_at: int
    last_step: int


UNDECIDED = Ending(sys.maxsize, sys.maxsize)
"""The ending of a run with a time budget before the clock has decided it."""


def planned_ending(config: TrainConfig) -> Ending:
    """The ending that follows from the settings alone. Warm-up, however long, comes before the fall."""
    falls_at = round(config.steps * (1 - config.decay_fraction))
    return Ending(min(max(falls_at, config.warmup_steps), config.steps), config.steps)


def fall_from(step: int, config: TrainConfig) -> Ending:
    """The ending of a run whose stable rate begins to fall after `step`: over `decay_fraction` of all its steps."""
    # Before the planned fall that is never beyond the steps that were asked for.
    return Ending(step, step + max(1, round(step * config.decay_fraction / (1 - config.decay_fraction))))


def learning_rate(step: int, config: TrainConfig, d_model: int, ending: Ending | None = None) -> float:
    """The rate of `step`, counted from 1; `ending` is the planned one unless another is given.

    It rises linearly over `warmup_steps`; then noam and inverse_sqrt fall with the square root of the step (equation 3
    of the paper), linear and cosine reach `final_learning_rate` just after the last step, and constant stays. stable
    stays and then falls linearly to zero (Hägele et al. 2024: it ends where a cosine of the same length
    does, and the length may be decided late).
    """
    warmup, ending = config.warmup_steps, ending or planned_ending(config)
    peak = config.learning_rate or (d_model * warmup) ** -0.5
    if config.schedule == "stable" and step > ending.falls_at:
        # A fall that begins within warm-up starts from the rate that it finds.
        return peak * min(1.0, ending.falls_at / warmup) * _left(step, ending.falls_at, ending.last_step)
    if step <= warmup:
        return peak * step / warmup
    left = _left(step, warmup, ending.last_step)
    if config.schedule in ("noam", "inverse_sqrt"):
        return peak * math.sqrt(warmup / step)
    final = config.final_learning_rate
    if config.schedule == "linear":
        return final + (peak - final) * left
    if config.schedule == "cosine":
        return final + (peak - final) * (1 - math.cos(math.pi * left)) / 2
    return peak


def _left(step: int, first: int, last: int) -> float:
    """What is left of the way from step `first` (1) to just after step `last` (0)."""
    return max(0.0, (last + 1 - step) / max(1, last + 1 - first))
