"""The constraints of outputs: they begin with given tokens, have a least length, repeat nothing, hold given terms.

A constraint takes continuations away (minus infinity) and leaves the probabilities of the others as they are, so a
score stays the model's own; by terms a search chooses besides (`decoding/banks.py`). It looks at one output alone, so
batches change nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pellucid.config.decode import CEILINGS
from pellucid.decoding.terms import Term, TermAutomaton
from pellucid.errors import ConfigError, shown
from pellucid.model.fast.queue import send

MOST = int(CEILINGS["max_length"])


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """The constraints of a search over some texts. Where nothing may go on, an output ends."""

    min_length: int = 0
    """The fewest tokens of an output, its end token not counted; its upper limit wins."""
    no_repeat_ngram: int = 0
    """No so many tokens in a row stand in an output twice; 0: they may."""
    prefixes: tuple[tuple[int, ...], ...] = ()
    """The tokens that each of the outputs begins with, which count in its score; (): none does."""
    terms: tuple[tuple[Term, ...], ...] = ()
    """The terms that each of the outputs holds; (): none."""
    continues: frozenset[int] = frozenset()
    """The tokens that continue the word before them: what shows where a term is a whole word."""

    def __post_init__(self) -> None:
        for name in ("min_length", "no_repeat_ngram"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
                raise ConfigError(
                    f"`{name}` ({shown(value)}) must be a whole number from 0 to {MOST:,}", "0 asks for nothing"
                )

    def __bool__(self) -> bool:
        return bool(self.min_length or self.no_repeat_ngram or any(self.prefixes) or any(self.terms))

    def of(self, texts: Sequence[int]) -> "Constraints":
        """Returns the constraints of some of the texts, by their places."""
        return replace(
            self,
            prefixes=tuple(self.prefixes[i] for i in texts) if self.prefixes else (),
            terms=tuple(self.terms[i] for i in texts) if self.terms else (),
        )

    def least(self, output: int) -> int:
        """Returns the fewest tokens of an output with its prefix and, behind that, the terms that this lacks."""
        prefix = self.prefixes[output] if self.prefixes else ()
        return len(prefix) + self.lacking(output)

    def lacking(self, output: int) -> int:
        """Returns how many tokens, at least, write the terms that the prefix of an output does not hold; 0: none."""
        terms, prefix = self.terms[output] if self.terms else (), self.prefixes[output] if self.prefixes else ()
        if not prefix:
            return sum(term.least for term in terms)
        automaton = TermAutomaton(terms, self.continues)
        state = automaton.start
        for token in prefix:
            state = automaton.read(state, token)
        return automaton.needs(state)

    def apply(
        self, log_probs: Tensor, ids: Tensor, outputs: Sequence[int], limits: Sequence[int], end: int, never: Tensor
    ) -> None:
        """Writes minus infinity over the log-probabilities (B, W, V) of what may not follow the tokens `ids` (B, W, T).

        Args:
            outputs: the output that each row of the batch is, by its place among the prefixes and the `limits`.
            limits: the most tokens of each output.
            end: the end token. never: (n,) ids that no output holds, but for a prefix.
        """
        length, device = ids.size(2), log_probs.device
        ends = log_probs[:, :, end].clone()  # (B, W)
        begun = [row for row, output in enumerate(outputs) if self.prefixes and length < len(self.prefixes[output])]
        rows = send(torch.tensor(begun, dtype=torch.long), device)
        tokens = send(torch.tensor([self.prefixes[outputs[row]][length] for row in begun], dtype=torch.long), device)
        forced = log_probs[rows, :, tokens]  # (n, W): a prefix may hold what is never chosen
        log_probs.index_fill_(2, never, -torch.inf)
        if 0 < self.no_repeat_ngram <= length:
            _take_away_repeated(log_probs, ids, self.no_repeat_ngram)
        if length < self.min_length:
            early = [length < min(self.min_length, limits[output]) for output in outputs]
            masked = send(torch.tensor(early), device)[:, None]  # (B, 1)
            log_probs[:, :, end] = log_probs[:, :, end].masked_fill(masked, -torch.inf)
        stuck = (log_probs == -torch.inf).all(dim=2)  # (B, W)
        log_probs[:, :, end] = torch.where(stuck, ends, log_probs[:, :, end])
        if begun:
            log_probs[rows] = -torch.inf
            log_probs[rows, :, tokens] = forced


def _take_away_repeated(log_probs: Tensor, ids: Tensor, size: int) -> None:
    """Writes minus infinity where a token would complete `size` tokens that stand in the output (B, W, T) already."""
    runs = ids.unfold(2, size, 1)  # (B, W, T - size + 1, size)
    last = ids[:, :, ids.size(2) - size + 1 :]  # (B, W, size - 1)
    again = (runs[..., :-1] == last[:, :, None]).all(dim=3)  # (B, W, T - size + 1)
    least = torch.full(again.shape, torch.inf, device=log_probs.device).masked_fill(again, -torch.inf)
    log_probs.scatter_reduce_(2, runs[..., -1], least, "amin")
