"""Section 5.3: the learning rate as a pure function of the step."""

import math

from pellucid.config import TrainConfig


def learning_rate(step: int, config: TrainConfig, d_model: int) -> float:
    """The rate of `step`, counted from 1.

    It rises linearly over `warmup_steps`; then noam and inverse_sqrt fall with the square root of the step (equation 3
    of the paper), linear and cosine reach zero just after the last step, and constant stays.
    """
    warmup = config.warmup_steps
    peak = config.learning_rate or (d_model * warmup) ** -0.5
    if step <= warmup:
        return peak * step / warmup
    left = max(0.0, (config.steps + 1 - step) / max(1, config.steps + 1 - warmup))
    if config.schedule in ("noam", "inverse_sqrt"):
        return peak * math.sqrt(warmup / step)
    if config.schedule == "linear":
        return peak * left
    if config.schedule == "cosine":
        return peak * (1 - math.cos(math.pi * left)) / 2
    return peak
