"""Beam search written down as plainly as possible, without the early exit: what beam.py is compared with."""

from collections.abc import Callable

import numpy as np

from pellucid.config import DecodeConfig
from tests.unit.decoding.models import BOS, EOS, PAD, Ids


def plain_search(
    logits: Callable[[Ids], list[float]],
    limit: int,
    config: DecodeConfig,
    cuts: bool = False,
    never: tuple[int, ...] = (PAD, BOS),
) -> list[tuple[Ids, float]]:
    """The n best (ids, score) of one sentence. `cuts`: at its limit a text is cut off, and has no end token."""

    def rank(found: tuple[Ids, float], length: int) -> float:
        return found[1] / length**config.length_penalty

    def whole(found: tuple[Ids, float]) -> float:
        return rank(found, len(found[0]) + (not cuts or len(found[0]) < limit))

    live: list[tuple[Ids, float]] = [((), 0.0)]
    finished: list[tuple[Ids, float]] = []
    while live:
        ahead = sum(whole(f) >= rank(live[0], max(1, len(live[0][0]))) for f in finished)
        if len(finished) >= config.beam_size and ahead >= config.n_best:
            break
        at_limit = len(live[0][0]) == limit
        if cuts and at_limit:
            finished += live
            break
        candidates = []
        for place, (ids, score) in enumerate(live):
            values = np.array(logits(ids))
            log_probs = values - np.logaddexp.reduce(values)
            for token in range(len(values)):
                if token not in never and (token == EOS or not at_limit):
                    candidates.append((score + float(log_probs[token]), place, token))
        candidates.sort(key=lambda c: (-c[0], c[1], c[2]))
        finished += [(live[place][0], s) for s, place, token in candidates[: config.beam_size] if token == EOS]
        going_on = [((*live[place][0], token), s) for s, place, token in candidates if token != EOS]
        live = going_on[: config.beam_size]
    finished.sort(key=lambda found: (-whole(found), found[0]))
    return finished[: config.n_best]
