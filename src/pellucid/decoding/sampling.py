"""Sampled outputs: temperature, top-k and top-p (nucleus) sampling.

The token of the largest log-probability plus Gumbel noise is a draw from the distribution. Drawn so, other last digits
of the log-probabilities seldom mean another token, and the margin of greedy search tells when they could.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pellucid.config import DecodeConfig
from pellucid.config.tables import Settings, check_fields
from pellucid.decoding.beam import greedy_search
from pellucid.decoding.hypothesis import Found
from pellucid.decoding.steps import Steps
from pellucid.errors import DecodingError, shown

MOST = 2**63 - 1
"""The largest seed and the largest number of tokens to draw from, which a tensor can hold."""


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(Settings):
    """Says how to draw. Filters apply after the temperature: first top-k, then top-p."""

    temperature: float = 1.0
    """Divides the logits: below 1 sharper, above 1 flatter."""
    top_k: int = 0
    """Draw from so many most probable tokens; 0: from all."""
    top_p: float = 1.0
    """Draw from the fewest tokens that together have this probability."""
    seed: int = 1
    """Each sentence has random numbers of its own, from (seed, its place), whatever stands beside it."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.temperature <= 0:
            raise DecodingError(f"`temperature` ({self.temperature}) must be above 0", "use greedy search for 0")
        for name in ("top_k", "seed"):
            if not 0 <= getattr(self, name) <= MOST:
                raise DecodingError(f"`{name}` ({shown(getattr(self, name))}) must be at least 0 and at most {MOST:,}")
        if not 0 < self.top_p <= 1:
            raise DecodingError(f"`top_p` ({self.top_p}) must be above 0 and at most 1")


def sample(steps: Steps, decode: DecodeConfig, sampling: SamplingConfig) -> list[Found]:
    """Returns one drawn hypothesis for each output, by random numbers of its own: from the seed and its place.

    The score is the sum of the model's own log-probabilities, before temperature and filters.
    """
    generators = [np.random.default_rng([sampling.seed, place]) for place in steps.places]

    def prefer(log_probs: Tensor, outputs: list[int]) -> Tensor:
        noise = np.stack([-np.log(generators[i].standard_exponential(log_probs.size(1))) for i in outputs])
        return filtered(log_probs, sampling) + torch.from_numpy(noise).float().to(log_probs.device)

    return greedy_search(steps, decode, prefer=prefer)


def filtered(log_probs: Tensor, config: SamplingConfig) -> Tensor:
    """Returns log-probabilities (B, V) after temperature, top-k and top-p, up to a constant.

    Minus infinity stands at what is left out.
    """
    scores = (log_probs - log_probs.amax(dim=1, keepdim=True)) / config.temperature  # (B, V)
    if not config.top_k and config.top_p == 1:
        return scores
    ordered, order = scores.sort(dim=1, descending=True, stable=True)
    if config.top_k:
        ordered[:, config.top_k :] = -torch.inf
    if config.top_p < 1:
        probs = ordered.softmax(dim=1)
        outside = probs.cumsum(dim=1) - probs >= config.top_p  # the token that reaches top_p stays
        ordered = ordered.masked_fill(outside, -torch.inf)
    return scores.scatter(1, order, ordered)
