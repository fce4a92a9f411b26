"""Diverse beam search (Vijayakumar et al., AAAI 2018): groups of hypotheses, each of which avoids the others' tokens.

The beam of an output is divided into G groups, and each group is a separate beam search. At each step the groups choose
one after the other: a token that k hypotheses of earlier groups have chosen at this step loses `strength` * k nats, in
this choice and in all later ones of the hypothesis. Scores and the stopping criterion use the model's log-probabilities
without this loss. A finished group writes no more tokens.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import torch
from torch import Tensor

from pellucid.config import DecodeConfig
from pellucid.decoding.beam import StepChoice, beam_search, choose_continuations
from pellucid.decoding.hypothesis import Hypothesis, SearchResult, StepCallback
from pellucid.decoding.steps import SearchState
from pellucid.errors import ConfigError, format_value

STRENGTH = 1.0
"""The default diversity, in nats."""


class DiverseBeam:
    """Chooses the groups' continuations: called like `choose_continuations`, with G rows in sequence per output."""

    def __init__(self, groups: int, strength: float) -> None:
        self.groups = groups
        self.strength = strength
        self._paid: dict[int, Tensor] = {}
        """The nats that the hypotheses of each output have lost so far, (W,)."""

    def __call__(
        self, log_probs: Tensor, scores: Tensor, steps: SearchState, watch: StepCallback | None = None
    ) -> StepChoice:
        """Returns the choices of all rows, computed group by group, since later groups depend on earlier ones."""
        rows = [[row for row, output in enumerate(steps.rows) if output % self.groups == g] for g in range(self.groups)]
        # (outputs, V): the hypotheses of earlier groups that go on with each token
        written = torch.zeros(1 + max(steps.rows) // self.groups, log_probs.size(2), device=log_probs.device)
        order, choices = list[int](), list[StepChoice]()
        for of_group in rows:
            if not of_group:
                continue
            places = torch.tensor(of_group, device=log_probs.device)
            outputs = torch.tensor([steps.rows[row] // self.groups for row in of_group], device=log_probs.device)
            penalty = self.strength * written[outputs]  # (n, V)
            penalty[:, steps.eos_id] = 0.0
            nothing = torch.zeros_like(scores[0])
            before = torch.stack([self._paid.get(steps.rows[row], nothing) for row in of_group])  # (n, W)
            choice = choose_continuations(log_probs[places] - penalty[:, None], scores[places] - before, steps)
            live = choice.scores > -torch.inf  # (n, W)
            assert choice.parents is not None
            paid = before.gather(1, choice.parents) + penalty.gather(1, choice.tokens).to(scores.dtype)  # (n, W)
            self._paid.update(zip([steps.rows[row] for row in of_group], paid.unbind(), strict=True))
            end_scores = choice.end_scores + before.gather(1, choice.end_parents)
            choice = replace(choice, scores=choice.scores + paid, end_scores=end_scores)
            written.index_put_(
                (outputs[:, None].expand_as(choice.tokens), choice.tokens), live.float(), accumulate=True
            )
            order += of_group
            choices.append(choice)
        back = torch.tensor(order, device=log_probs.device).argsort()

        def concatenate(name: str) -> Tensor:
            return torch.cat([getattr(choice, name) for choice in choices])[back]

        return StepChoice(
            concatenate("tokens"), concatenate("parents"), concatenate("scores"), concatenate("ends"),
            concatenate("end_parents"),
            concatenate("end_scores"), concatenate("margins"),
        )  # fmt: skip


@dataclass(frozen=True)
class DiverseSearch:
    """A search that is called with G copies in sequence of each output, one per group; `engine.search` does so."""

    groups: int
    """The number of groups of a beam."""
    strength: float = STRENGTH
    """The nats subtracted for each earlier hypothesis with the same token, in the choice alone."""

    def __post_init__(self) -> None:
        if isinstance(self.groups, bool) or not isinstance(self.groups, int) or self.groups < 2:
            raise ConfigError(
                f"`beam_groups` ({format_value(self.groups)}) must be a whole number of at least 2",
                "leave it out for a single group",
            )
        strength = self.strength
        if isinstance(strength, bool) or not isinstance(strength, int | float) or not 0 <= strength < math.inf:
            raise ConfigError(
                f"`diversity_penalty` ({format_value(strength)}) must be a number of at least 0",
                "0.5 to 2 are usual",
            )

    def check(self, config: DecodeConfig) -> None:
        """Raises ConfigError if the groups cannot share the beam evenly."""
        if config.beam_size % self.groups:
            raise ConfigError(
                f"`beam_size` ({config.beam_size}) must be divisible by the number of groups ({self.groups})",
                f"use {self.groups * -(-config.beam_size // self.groups)}",
            )

    def __call__(self, steps: SearchState, config: DecodeConfig) -> list[SearchResult]:
        """Returns the n best of each output, from all of its groups.

        Each group in turn contributes its n / G best hypotheses, rounded up, that no earlier group has contributed. The
        remaining places are filled from all groups by rank, and the result is ordered by rank.
        """
        self.check(config)
        size = self.groups
        width = config.beam_size // size
        of_group = replace(config, beam_size=width, n_best=width)
        # Checked at each step: a finished group writes no more tokens, regardless of the other outputs.
        found = beam_search(steps, of_group, choose_step=DiverseBeam(size, self.strength), sync_every=1)
        return [_merge_groups(found[start : start + size], config) for start in range(0, len(found), size)]


def _merge_groups(found: Sequence[SearchResult], config: DecodeConfig) -> SearchResult:
    """Returns the n best hypotheses of one output from the results of its groups, best first."""
    penalty, share = config.length_penalty, -(-config.n_best // len(found))

    def sort_by_rank(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
        return sorted(hypotheses, key=lambda h: (-h.rank(penalty), h.ids))

    given: dict[tuple[int, ...], Hypothesis] = {}
    for of_group in found:
        new = [h for h in of_group.hypotheses if tuple(h.ids) not in given]
        given.update({tuple(h.ids): h for h in new[:share]})
    every = {tuple(h.ids): h for of_group in found for h in of_group.hypotheses} | given
    others = sort_by_rank(h for ids, h in every.items() if ids not in given)
    lacking = max(0, config.n_best - len(given))
    ranked = sort_by_rank([*given.values(), *others[:lacking]])
    near = [*islice(pairwise(ranked), config.n_best), *pairwise(others[max(0, lacking - 1) : lacking + 1])]
    gaps = [
        2 * (first.rank(penalty) - second.rank(penalty)) / (1 / first.length**penalty + 1 / second.length**penalty)
        for first, second in near
    ]
    return SearchResult(ranked[: config.n_best], min([one.margin for one in found] + gaps))
