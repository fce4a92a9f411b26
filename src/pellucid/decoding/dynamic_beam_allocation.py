"""Beam search with lexical constraints: dynamic beam allocation (Post and Vilar, NAACL 2018).

The continuations of an output are grouped into banks by the number of tokens that its terms still need. The banks take
turns, the one that needs the fewest first, and put their best continuation into the beam until the beam is full. So
hypotheses with a term do not compete with hypotheses without it, and the cost of a step does not grow with the number
of terms. Only a hypothesis with all terms may end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from pellucid.decoding.beam import StepChoice, stable_topk
from pellucid.decoding.hypothesis import StepCallback
from pellucid.decoding.steps import SearchState
from pellucid.decoding.terms import State, Term, TermAutomaton
from pellucid.model.fast.gpu import to_device_async


@dataclass(frozen=True, order=True)
class _Continuation:
    """A continuation that may stay live or end, ordered by its score, then by its index: the best first."""

    loss: float
    """The difference between its score and that of the best hypothesis before the step."""
    parent: int
    token: int
    state: State


class DynamicBeamAllocation:
    """Chooses the continuations of the outputs of one search: called like `choose_continuations`."""

    def __init__(self, terms: Sequence[Sequence[Term]], continues: frozenset[int]) -> None:
        """Takes the terms of each output, and the tokens that continue the word before them."""
        self._automata = [TermAutomaton(of_output, continues) for of_output in terms]
        self._continues = continues
        self._states: dict[int, list[State]] = {}
        self._ended: set[int] = set()
        """The outputs with an ended hypothesis."""

    def __call__(
        self, log_probs: Tensor, scores: Tensor, steps: SearchState, watch: StepCallback | None = None
    ) -> StepChoice:
        width = scores.size(1)
        highest = scores.amax(dim=1, keepdim=True)  # (B, 1)
        highest = highest.masked_fill(highest == -torch.inf, 0.0)
        totals = log_probs.add_((scores - highest).float()[:, :, None])  # (B, W, V)
        weighed = self._group_by_bank(totals, steps, width)
        chosen = [
            self._select(output, *of_row, width, steps.eos_id)
            for output, of_row in zip(steps.rows, weighed, strict=True)
        ]
        live = [row[0] for row in chosen]
        ends = [row[1] for row in chosen]
        tokens, parents, losses = (
            [[getattr(one, name) for one in row] + [fill] * (width - len(row)) for row in live]
            for name, fill in (("token", 0), ("parent", 0), ("loss", math.inf))
        )
        end_parents, end_losses = (
            [[getattr(one, name) for one in row] + [fill] * (width - len(row)) for row in ends]
            for name, fill in (("parent", 0), ("loss", math.inf))
        )
        device = steps.device
        whole, ending = (
            to_device_async(torch.tensor([tokens, parents]), device),
            to_device_async(torch.tensor(end_parents), device),
        )
        single = torch.tensor([losses, end_losses], dtype=torch.float32)  # as the sums above
        gone = to_device_async(single, device).to(scores.dtype)
        end_scores = highest - gone[1]  # (B, W)
        margins = to_device_async(torch.tensor([row[2] for row in chosen], dtype=torch.float32), device)
        return StepChoice(whole[0], whole[1], highest - gone[0], end_scores.isfinite(), ending, end_scores, margins)

    def _group_by_bank(
        self, totals: Tensor, steps: SearchState, width: int
    ) -> list[tuple[dict[int, list[_Continuation]], list[_Continuation]]]:
        """Returns for each row the continuations of each bank, with its W + 1 best, and the ends.

        Tokens outside of all terms have the same effect on the automaton, so the best ones of a hypothesis are enough.
        """
        eos = steps.eos_id
        states = [self._states.setdefault(output, [TermAutomaton.start] * width) for output in steps.rows]
        alive = (totals[:, :, eos] > -torch.inf) | (totals > -torch.inf).any(dim=2)  # (B, W)
        places: list[tuple[int, int]] = [(row, place) for row, place in alive.nonzero().tolist()]
        named = [self._automata[steps.rows[row]].get_term_tokens(states[row][place]) for row, place in places]
        at = [
            (row, place, token) for (row, place), tokens in zip(places, named, strict=True) for token in (*tokens, eos)
        ]
        index = tuple(
            to_device_async(torch.tensor(column, dtype=torch.long), totals.device) for column in zip(*at, strict=True)
        )
        values = iter(totals[index].tolist() if at else [])
        if at:
            totals[index] = -torch.inf
        found: list[tuple[dict[int, list[_Continuation]], list[_Continuation]]] = [({}, []) for _ in steps.rows]
        for (row, place), tokens in zip(places, named, strict=True):
            automaton, state = self._automata[steps.rows[row]], states[row][place]
            for token in tokens:
                self._put(found[row][0], automaton, next(values), place, token, automaton.read(state, token))
            if (value := next(values)) > -math.inf:
                found[row][1].append(_Continuation(-value, place, eos, state))
        for continues, some in self._others(places, states):
            if not some:
                continue
            rows, columns = (to_device_async(torch.tensor(column), totals.device) for column in zip(*some, strict=True))
            rest = totals[rows, columns]  # (n, V)
            if continues is not None:
                mask = torch.zeros(rest.size(1), dtype=torch.bool)
                mask[[token for token in self._continues if token < len(mask)]] = True
                rest = rest.masked_fill(to_device_async(mask, totals.device) != continues, -torch.inf)
            best, tokens_of = (tensor.tolist() for tensor in stable_topk(rest, min(width + 1, rest.size(1))))
            for (row, place), of_place, tokens in zip(some, best, tokens_of, strict=True):
                automaton = self._automata[steps.rows[row]]
                state = automaton.read_other(states[row][place], continues=bool(continues))
                for value, token in zip(of_place, tokens, strict=True):
                    self._put(found[row][0], automaton, value, place, token, state)
        return found

    def _others(
        self, places: list[tuple[int, int]], states: list[list[State]]
    ) -> list[tuple[bool | None, list[tuple[int, int]]]]:
        """Returns the hypotheses for each kind of other tokens: any (None), or, if a term is pending, the tokens that
        begin a word (False) and the tokens that continue one (True).
        """
        waiting = [(row, place) for row, place in places if states[row][place].pending]
        indifferent = [(row, place) for row, place in places if not states[row][place].pending]
        return [(None, indifferent), (False, waiting), (True, waiting)]

    def _put(
        self,
        banks: dict[int, list[_Continuation]],
        automaton: TermAutomaton,
        value: float,
        place: int,
        token: int,
        state: State,
    ) -> None:
        if value > -math.inf:
            banks.setdefault(automaton.count_tokens_left(state), []).append(_Continuation(-value, place, token, state))

    def _select(
        self, output: int, banks: dict[int, list[_Continuation]], ends: list[_Continuation], width: int, eos: int
    ) -> tuple[list[_Continuation], list[_Continuation], float]:
        """Returns the continuations that stay live, the ones that end, and the margin of the choice."""
        automaton = self._automata[output]
        ranked = {need: sorted(bank) for need, bank in sorted(banks.items())}
        taken = _turns([len(bank) for bank in ranked.values()], width)
        gaps = [
            bank[count].loss - bank[count - 1].loss
            for bank, count in zip(ranked.values(), taken, strict=True)
            if 0 < count < len(bank)
        ]
        live = sorted(chain.from_iterable(bank[:count] for bank, count in zip(ranked.values(), taken, strict=True)))
        whole = [end for end in ends if automaton.count_tokens_left(end.state) == 0]
        if not whole and not live and output not in self._ended:
            whole = ends  # no continuation is allowed, so it ends
        rivals = sorted([*whole, *ranked.get(0, [])])
        finishing = [one for one in rivals[:width] if one.token == eos]
        refused = next((one for one in rivals[width:] if one.token == eos), None)
        if finishing and len(rivals) > width:
            gaps.append(rivals[width].loss - finishing[-1].loss)
        if refused is not None:
            gaps.append(refused.loss - rivals[width - 1].loss)
        if finishing:
            self._ended.add(output)
        self._states[output] = [one.state for one in live] + [TermAutomaton.start] * (width - len(live))
        return live, finishing, min(gaps, default=math.inf)


def _turns(sizes: list[int], width: int) -> list[int]:
    """Returns the number of continuations of each bank in a beam of `width`: banks take turns, the first one first."""
    taken = [0] * len(sizes)
    while width and taken != sizes:
        for number, size in enumerate(sizes):
            if width and taken[number] < size:
                taken[number] += 1
                width -= 1
    return taken
