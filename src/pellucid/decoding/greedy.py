"""Greedy search: the most probable token at each step."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from pellucid.config import DecodeConfig
from pellucid.decoding.hypothesis import Found, Hypothesis, Watcher, Weighed, length_limits, next_log_probs
from pellucid.model.transformer import Transformer

Preferences = Callable[[Tensor, list[int]], Tensor]
"""From log-probabilities (B, V), and which source each row is, to the values (B, V) of which the largest is taken."""


@torch.inference_mode()
def greedy_search(
    model: Transformer,
    src: Tensor,
    decode: DecodeConfig | None = None,
    preferences: Preferences | None = None,
    watch: Watcher | None = None,
) -> list[Found]:
    """One hypothesis for each of the sources (B, S). Equal probabilities: the lower id.

    Of `decode` count what limits, begins and suppresses an output. `preferences` are what sampling takes in place of
    log-probabilities; scores are log-probabilities all the same. `watch` is told of each step of a single source: the
    two best tokens.
    """
    decode = decode or DecodeConfig()
    limits = length_limits(src, decode, model.config)
    cache = model.start(src)
    rows = list(range(src.size(0)))  # which source each row of the batch is
    ids: list[list[int]] = [[] for _ in rows]
    scores, margins = [0.0] * len(rows), [float("inf")] * len(rows)
    tokens = src.new_full((src.size(0), 1), model.config.bos_id)  # (B, 1)
    for forced in decode.target_prefix:
        model.step(tokens, cache)
        tokens = torch.full_like(tokens, forced)
    for length in range(max(limits) + 1):
        at_limit = [length >= limits[row] for row in rows]
        log_probs = next_log_probs(model.step(tokens, cache), at_limit, model.config, decode.suppress)[:, 0]  # (B, V)
        tokens, gaps = best_token(log_probs if preferences is None else preferences(log_probs, rows))
        chosen = log_probs.gather(1, tokens)[:, 0].tolist()
        if watch is not None:
            watch(_weighed(log_probs[0], int(tokens[0, 0]), scores[0], model.config.eos_id))
        for row, token, score, gap in zip(rows, tokens[:, 0].tolist(), chosen, gaps.tolist(), strict=True):
            scores[row] += score
            margins[row] = min(margins[row], gap)
            if token != model.config.eos_id:
                ids[row].append(token)
        live = (tokens[:, 0] != model.config.eos_id).nonzero()[:, 0]
        if len(live) == 0:
            break
        if len(live) < len(rows):
            rows = [rows[i] for i in live.tolist()]
            tokens = tokens[live]
            cache.select(live)
    found = [Hypothesis(i, s, len(decode.target_prefix)) for i, s in zip(ids, scores, strict=True)]
    return [Found([h], margin) for h, margin in zip(found, margins, strict=True)]


def best_token(values: Tensor) -> tuple[Tensor, Tensor]:
    """The place of the largest of each row, of equal ones the first, and its lead: (B, V) -> (B, 1), (B,)."""
    best, second = values.topk(2).values.unbind(dim=1)
    return (values == best[:, None]).int().argmax(dim=1, keepdim=True), best - second


def _weighed(log_probs: Tensor, chosen: int, score: float, eos_id: int) -> list[Weighed]:
    """The chosen token and its best rival, by (V,), behind an output of `score`."""
    values, tokens = log_probs.topk(2)
    rivals = [(token, value) for value, token in zip(values.tolist(), tokens.tolist(), strict=True) if token != chosen]
    fate: Literal["live", "finished"] = "finished" if chosen == eos_id else "live"
    value = log_probs[chosen].item()
    return [
        Weighed(0, chosen, value, score + value, fate),
        *(Weighed(0, token, value, score + value, "pruned") for token, value in rivals[:1] if value > -math.inf),
    ]
