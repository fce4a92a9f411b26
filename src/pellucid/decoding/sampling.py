"""Sampled outputs: temperature, top-k, top-p (nucleus) and epsilon sampling.

The token with the largest log-probability plus Gumbel noise is a sample from the distribution (Gumbel-max trick). With
it, rounding of the log-probabilities rarely changes the token, and the margin of greedy search shows when it could.
"""

import math

import numpy as np
import torch
from torch import Tensor

from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.decoding.beam import greedy_search
from pellucid.decoding.hypothesis import SearchResult
from pellucid.decoding.steps import SearchState
from pellucid.model.fast.gpu import to_device_async


def sample(steps: SearchState, decode: DecodeConfig, sampling: SamplingConfig) -> list[SearchResult]:
    """Returns one sampled hypothesis for each output; the seed and the output's index determine its random numbers.

    The score is the sum of the model's log-probabilities, before temperature and filters.
    """
    steps.adds_ends = True
    generators = [np.random.default_rng([sampling.seed, place]) for place in steps.text_indices]

    def prefer(log_probs: Tensor, outputs: list[int]) -> Tensor:
        noise = np.stack([-np.log(generators[i].standard_exponential(log_probs.size(1))) for i in outputs])
        return filter_log_probs(log_probs, sampling) + to_device_async(
            torch.from_numpy(noise).float(), log_probs.device
        )

    return greedy_search(steps, decode, token_values=prefer)


def filter_log_probs(log_probs: Tensor, config: SamplingConfig) -> Tensor:
    """Returns log-probabilities (B, V) after epsilon, temperature, top-k and top-p, up to a constant.

    Excluded tokens have minus infinity.
    """
    highest = log_probs.amax(dim=1, keepdim=True)  # (B, 1)
    scores = (log_probs - highest) / config.temperature  # (B, V)
    if config.epsilon_cutoff:
        scores = scores.masked_fill((log_probs < math.log(config.epsilon_cutoff)) & (log_probs < highest), -torch.inf)
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
