"""Diverse beam search (Vijayakumar et al., AAAI 2018): groups of hypotheses, each of which avoids what others write.

The beam of an output is parted into G groups, and each group is a beam search of its own. At each step they choose one
after the other: a token that k hypotheses of earlier groups have chosen at this step counts `strength` * k nats less,
in this choice and in those that follow upon it. Scores stay the model's own, and so does what a group is done by; once
done it writes nothing more.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import torch
from torch import Tensor

from pellucid.config import DecodeConfig
from pellucid.decoding.beam import Choice, beam_search, choose_continuations
from pellucid.decoding.hypothesis import Found, Hypothesis, Watcher
from pellucid.decoding.steps import Steps
from pellucid.errors import ConfigError, shown

STRENGTH = 1.0
"""The diversity where nothing else is said, in nats."""


class DiverseChoice:
    """Chooses how the groups go on: called as `choose_continuations` is, with G outputs in a row for each output."""

    def __init__(self, groups: int, strength: float) -> None:
        self.groups = groups
        self.strength = strength
        self._paid: dict[int, Tensor] = {}
        """The nats that the hypotheses of each output have lost so far, (W,)."""

    def __call__(self, log_probs: Tensor, scores: Tensor, steps: Steps, watch: Watcher | None = None) -> Choice:
        """Returns the choices of all rows: those of the first groups first, since the others depend on them."""
        rows = [[row for row, output in enumerate(steps.rows) if output % self.groups == g] for g in range(self.groups)]
        # (outputs, V): the hypotheses of earlier groups that go on with each token
        written = torch.zeros(1 + max(steps.rows) // self.groups, log_probs.size(2), device=log_probs.device)
        order, choices = list[int](), list[Choice]()
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

        def whole(name: str) -> Tensor:
            return torch.cat([getattr(choice, name) for choice in choices])[back]

        return Choice(
            whole("tokens"), whole("parents"), whole("scores"), whole("ends"), whole("end_parents"),
            whole("end_scores"), whole("margins"),
        )  # fmt: skip


@dataclass(frozen=True)
class DiverseSearch:
    """A search that is called with each output as many times in a row as there are groups; `engine.search` does so."""

    groups: int
    """The groups that a beam is parted into."""
    strength: float = STRENGTH
    """The nats that each earlier hypothesis with the same token costs, in the choice alone."""

    def __post_init__(self) -> None:
        if isinstance(self.groups, bool) or not isinstance(self.groups, int) or self.groups < 2:
            raise ConfigError(
                f"`diverse_groups` ({shown(self.groups)}) must be a whole number from 2 on", "leave it out for one"
            )
        strength = self.strength
        if isinstance(strength, bool) or not isinstance(strength, int | float) or not 0 <= strength < math.inf:
            raise ConfigError(
                f"`diversity` ({shown(strength)}) must be a number from 0 on", "0.5 to 2 are usual, more is stranger"
            )

    def check(self, config: DecodeConfig) -> None:
        """Raises ConfigError where the groups cannot share the beam evenly."""
        if config.beam_size % self.groups:
            raise ConfigError(
                f"`beam_size` ({config.beam_size}) cannot be shared evenly by {self.groups} groups",
                f"use {self.groups * -(-config.beam_size // self.groups)}",
            )

    def __call__(self, steps: Steps, config: DecodeConfig) -> list[Found]:
        """Returns the n best of each output, from all of its groups.

        One group after the other gives its n / G best, rounded up, of those that no earlier one has given; what lacks
        then comes from all of them by rank, and so does the order.
        """
        self.check(config)
        size = self.groups
        width = config.beam_size // size
        of_group = replace(config, beam_size=width, n_best=width)
        # Looked at in each step: a group that is done writes nothing more, whatever stands beside its output.
        found = beam_search(steps, of_group, choose=DiverseChoice(size, self.strength), look_every=1)
        return [_together(found[start : start + size], config) for start in range(0, len(found), size)]


def _together(found: Sequence[Found], config: DecodeConfig) -> Found:
    """Returns the n best of one output from what its groups have found, best first."""
    penalty, share = config.length_penalty, -(-config.n_best // len(found))

    def by_rank(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
        return sorted(hypotheses, key=lambda h: (-h.rank(penalty), h.ids))

    given: dict[tuple[int, ...], Hypothesis] = {}
    for of_group in found:
        new = [h for h in of_group.hypotheses if tuple(h.ids) not in given]
        given.update({tuple(h.ids): h for h in new[:share]})
    every = {tuple(h.ids): h for of_group in found for h in of_group.hypotheses} | given
    others = by_rank(h for ids, h in every.items() if ids not in given)
    lacking = max(0, config.n_best - len(given))
    ranked = by_rank([*given.values(), *others[:lacking]])
    near = [*islice(pairwise(ranked), config.n_best), *pairwise(others[max(0, lacking - 1) : lacking + 1])]
    gaps = [
        2 * (first.rank(penalty) - second.rank(penalty)) / (1 / first.length**penalty + 1 / second.length**penalty)
        for first, second in near
    ]
    return Found(ranked[: config.n_best], min([one.margin for one in found] + gaps))
