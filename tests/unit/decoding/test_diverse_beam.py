"""Diverse beam search is the one of the paper, whatever stands beside an output."""

from collections.abc import Callable

import numpy as np
import pytest

from pellucid.config import DecodeConfig
from pellucid.decoding.batched_search import search
from pellucid.decoding.diverse_beam import DiverseSearch
from pellucid.decoding.scoring import score_outputs
from pellucid.errors import ConfigError
from tests.unit.decoding.models import BOS, EOS, PAD, Ids, random_model, random_script, random_sources, scripted

VOCAB = 9


def plain_diverse_search(
    logits: Callable[[Ids], list[float]], limit: int, config: DecodeConfig, groups: int, strength: float
) -> list[tuple[Ids, float]]:
    """The groups of one sentence step by step, written down as plainly as possible."""
    width, share = config.beam_size // groups, -(-config.n_best // groups)
    live: list[list[tuple[Ids, float, float]]] = [[((), 0.0, 0.0)] for _ in range(groups)]  # ids, score, what it lost
    finished: list[list[tuple[Ids, float]]] = [[] for _ in range(groups)]

    def rank(score: float, length: int) -> float:
        return score / length**config.length_penalty

    for length in range(limit + 1):
        written: list[int] = []
        for group in range(groups):
            candidates = []
            for place, (ids, score, lost) in enumerate(live[group]):
                values = np.array(logits(ids))
                log_probs = values - np.logaddexp.reduce(values)
                for token in range(VOCAB):
                    if token in (PAD, BOS) or (length == limit and token != EOS):
                        continue
                    total = score + float(log_probs[token])
                    paid = lost + (0.0 if token == EOS else strength * written.count(token))
                    candidates.append((paid - total, place, token, total, paid))
            candidates.sort()
            ends = [c for c in candidates[:width] if c[2] == EOS]
            finished[group] += [(live[group][place][0], total) for _, place, _, total, _ in ends]
            going_on = [c for c in candidates if c[2] != EOS][:width]
            live[group] = [((*live[group][i][0], token), total, paid) for _, i, token, total, paid in going_on]
            written += [token for _, _, token, _, _ in going_on]
            if len(finished[group]) >= width and live[group]:
                rival = max(rank(total, length + 1) for _, total, _ in live[group])
                if sum(rank(s, len(ids) + 1) >= rival for ids, s in finished[group]) >= width:
                    live[group] = []
    taken: dict[Ids, float] = {}
    left: dict[Ids, float] = {}
    for of_group in finished:
        best = sorted(of_group, key=lambda f: (-rank(f[1], len(f[0]) + 1), f[0]))[:width]
        new = [(ids, score) for ids, score in best if ids not in taken]
        taken.update(new[:share])
        left.update(new[share:])
    rest = sorted(((i, s) for i, s in left.items() if i not in taken), key=lambda f: -rank(f[1], len(f[0]) + 1))
    taken.update(rest[: max(0, config.n_best - len(taken))])
    return sorted(taken.items(), key=lambda f: (-rank(f[1], len(f[0]) + 1), f[0]))[: config.n_best]


@pytest.mark.parametrize(("groups", "width", "n_best"), [(2, 2, 4), (3, 1, 3), (2, 3, 3), (4, 2, 5)])
@pytest.mark.parametrize("strength", [0.0, 0.7])
def test_the_search_is_that_of_the_paper(groups: int, width: int, n_best: int, strength: float) -> None:
    config = DecodeConfig(beam_size=groups * width, n_best=n_best, max_length=6)
    script = random_script(groups + width, VOCAB)
    sources = [[3, 4], [5], [4, 4, 6]]
    found = search(scripted(script, VOCAB), sources, config, DiverseSearch(groups, strength))
    for source, hypotheses in zip(sources, found, strict=True):
        wanted = plain_diverse_search(lambda ids, s=tuple(source): list(script(s, ids)), 6, config, groups, strength)  # type: ignore[misc]
        assert [tuple(h.ids) for h in hypotheses] == [ids for ids, _ in wanted]
        assert [h.score for h in hypotheses] == pytest.approx([score for _, score in wanted], abs=1e-4)


@pytest.mark.slow
def test_neighbours_change_nothing_and_scores_are_the_models() -> None:
    model, sources = random_model(3), random_sources(3, 6, longest=6)
    config, by = DecodeConfig(beam_size=6, n_best=6, max_length=9), DiverseSearch(3, 1.0)
    together = search(model, sources, config, by)
    for place, source in enumerate(sources):
        (alone,) = search(model, [source], config, by)
        assert [h.ids for h in alone] == [h.ids for h in together[place]]
        scores = score_outputs(model, [source] * len(alone), [h.ids for h in alone])
        assert [h.score for h in alone] == pytest.approx(scores, abs=1e-4)


def test_what_cannot_be() -> None:
    for groups in (1, True, 2.0):
        with pytest.raises(ConfigError, match=r"`beam_groups` \(.*\) must be a whole number of at least 2"):
            DiverseSearch(groups)  # type: ignore[arg-type]
    for strength in (-1.0, float("nan"), "x"):
        with pytest.raises(ConfigError, match=r"`diversity_penalty` \(.*\) must be a number of at least 0"):
            DiverseSearch(2, strength)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"`beam_size` \(5\) must be divisible by the number of groups \(2\)"):
        search(random_model(1), [[3]], DecodeConfig(beam_size=5), DiverseSearch(2))


def test_groups_that_agree_give_what_they_do_not_share() -> None:
    """One sentence is far more probable than all others, and every group finds it first."""

    def sure(_: Ids, target: Ids) -> list[float]:
        wanted = (4, 5, 6, EOS)[min(len(target), 3)]
        return [9.0 if token == wanted else -float(token) / 9 for token in range(VOCAB)]

    config = DecodeConfig(beam_size=8, n_best=4, max_length=4)
    (found,) = search(scripted(sure, VOCAB), [[3]], config, DiverseSearch(4, 3.0))
    assert found[0].ids == [4, 5, 6]
    assert len({tuple(h.ids) for h in found}) == 4
