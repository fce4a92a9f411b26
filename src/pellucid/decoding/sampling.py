"""Sampled outputs: temperature, top-k, top-p (nucleus) and epsilon sampling.

The token of the largest log-probability plus Gumbel noise is a draw from the distribution. Drawn so, other last digits
of the log-probabilities seldom mean another token, and the margin of greedy search tells when they could.
"""

import math

import numpy as np
import torch
from torch import Tensor

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.beam import greedy_search
from pellucid.decoding.hypothesis import Found
from pellucid.decoding.steps import Steps
from pellucid.model.fast.queue import send


def sample(steps: Steps, decode: DecodeConfig, sampling: SamplingConfig) -> list[Found]:
    """Returns one drawn hypothesis for each output, by random numbers of its own: from the seed and its place.

    The score is the sum of the model's own log-probabilities, before temperature and filters.
    """
    generators = [np.random.default_rng([sampling.seed, place]) for place in steps.places]

    def prefer(log_probs: Tensor, outputs: list[int]) -> Tensor:
        noise = np.stack([-np.log(generators[i].standard_exponential(log_probs.size(1))) for i in outputs])
        return filtered(log_probs, sampling) + send(torch.from_numpy(noise).float(), log_probs.device)

    return greedy_search(steps, decode, prefer=prefer)


def filtered(log_probs: Tensor, config: SamplingConfig) -> Tensor:
    """Returns log-probabilities (B, V) after epsilon, temperature, top-k and top-p, up to a constant.

    Minus infinity stands at what is left out.
    """
    highest = log_probs.amax(dim=1, keepdim=True)  # (B, 1)
    scores = (log_probs - highest) / config.temperature  # (B, V)
    if config.epsilon:
        scores = scores.masked_fill((log_probs < math.log(config.epsilon)) & (log_probs < highest), -torch.inf)
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
