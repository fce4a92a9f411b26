"""Sampled outputs: temperature, top-k and top-p (nucleus) sampling.

The token of the largest log-probability plus Gumbel noise is a draw from the distribution. Drawn so, other last digits
of the log-probabilities seldom mean another token, and the margin of greedy search tells when they could.
"""

import numpy as np
import torch
from torch import Tensor

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.greedy import Preferences, greedy_search
from pellucid.decoding.hypothesis import Found
from pellucid.model.transformer import Transformer


def sample(
    model: Transformer,
    src: Tensor,
    config: SamplingConfig,
    places: list[int],
    decode: DecodeConfig | None = None,
) -> list[Found]:
    """One drawn output for each of the sources (B, S); `places` are their numbers in the whole input.

    The score is the sum of the model's own log-probabilities, before temperature and filters. Of `decode` count what
    limits, begins and suppresses an output.
    """
    return greedy_search(model, src, decode, drawing(config, places))


def drawing(config: SamplingConfig, places: list[int]) -> Preferences:
    """What a search is to prefer so that its choices are draws; `places` number the rows that it begins with."""
    generators = [np.random.default_rng([config.seed, place]) for place in places]

    def draw(log_probs: Tensor, rows: list[int]) -> Tensor:
        noise = np.stack([-np.log(generators[row].standard_exponential(log_probs.size(1))) for row in rows])
        return filtered(log_probs, config) + torch.from_numpy(noise).float().to(log_probs.device)

    return draw


def filtered(log_probs: Tensor, config: SamplingConfig) -> Tensor:
    """Log-probabilities (B, V) after temperature, top-k and top-p, up to a constant; minus infinity: left out."""
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
