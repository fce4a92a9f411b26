"""The constraints of outputs: forced prefixes, minimum length, no repeated n-grams, banned sequences, terms.

A constraint excludes continuations (minus infinity) without renormalizing the others, so a score remains the model's.
Terms also change how a search chooses (`decoding/dynamic_beam_allocation.py`). A constraint depends on one output
alone, not on its batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from pellucid.config.decode import CEILINGS, DecodeConfig
from pellucid.decoding.terms import Term, TermAutomaton
from pellucid.errors import ConfigError, format_value
from pellucid.model.fast.gpu import to_device_async

MOST = int(CEILINGS["max_length"])
LONGEST_RUN = 24
"""The most tokens of a run whose repetition is limited."""


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """The constraints of a search over some texts. If no continuation is allowed, an output ends."""

    min_length: int = 0
    """The fewest tokens of an output, without its end token; the upper limit takes precedence."""
    no_repeat_ngram_size: int = 0
    """The size of n-grams that must not repeat in an output; 0: no limit."""
    max_repeats: int = 0
    """The most times that a run of at most LONGEST_RUN tokens may occur in a row in an output; 0: no limit."""
    banned: tuple[tuple[int, ...], ...] = ()
    """The sequences of at least two ids that no output may contain."""
    prefixes: tuple[tuple[int, ...], ...] = ()
    """The forced prefix of each output, which counts in its score; (): no prefixes."""
    terms: tuple[tuple[Term, ...], ...] = ()
    """The terms that each output must contain; (): none."""
    continues: frozenset[int] = frozenset()
    """The tokens that continue the word before them, which determine if a term is a whole word."""

    def __post_init__(self) -> None:
        for name in ("min_length", "no_repeat_ngram_size", "max_repeats"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
                raise ConfigError(
                    f"`{name}` ({format_value(value)}) must be a whole number from 0 to {MOST:,}", "0 switches it off"
                )

    def __bool__(self) -> bool:
        asked = self.min_length or self.no_repeat_ngram_size or self.max_repeats or self.banned
        return bool(asked or any(self.prefixes) or any(self.terms))

    def select(self, texts: Sequence[int]) -> "Constraints":
        """Returns the constraints of some of the texts, by their indices."""
        return replace(
            self,
            prefixes=tuple(self.prefixes[i] for i in texts) if self.prefixes else (),
            terms=tuple(self.terms[i] for i in texts) if self.terms else (),
        )

    def compute_min_length(self, output: int) -> int:
        """Returns the fewest tokens of an output with its prefix, followed by the terms that the prefix lacks."""
        prefix = self.prefixes[output] if self.prefixes else ()
        return len(prefix) + self.count_missing_tokens(output)

    def count_missing_tokens(self, output: int) -> int:
        """Returns the fewest tokens that write the terms that the prefix of an output lacks; 0: it lacks none."""
        terms, prefix = self.terms[output] if self.terms else (), self.prefixes[output] if self.prefixes else ()
        if not prefix:
            return sum(term.least for term in terms)
        automaton = TermAutomaton(terms, self.continues)
        state = automaton.start
        for token in prefix:
            state = automaton.read(state, token)
        return automaton.count_tokens_left(state)

    def apply(
        self,
        log_probs: Tensor,
        ids: Tensor,
        outputs: Sequence[int],
        limits: Sequence[int],
        end: int,
        never: Tensor,
        begin: Tensor | None = None,
    ) -> None:
        """Sets the log-probabilities (B, W, V) of tokens that may not follow the tokens `ids` (B, W, T) to minus
        infinity.

        Args:
            outputs: the index of each row's output among the prefixes and the `limits`.
            limits: the most tokens of each output.
            end: the end token.
            never: (n,) ids that no output may contain, except in its prefix.
            begin: (B, W, P) tokens before the outputs, which count as repeated, too; None: there are none.
        """
        length, device = ids.size(2), log_probs.device
        ends = log_probs[:, :, end].clone()  # (B, W)
        begun = [row for row, output in enumerate(outputs) if self.prefixes and length < len(self.prefixes[output])]
        rows = to_device_async(torch.tensor(begun, dtype=torch.long), device)
        tokens = to_device_async(
            torch.tensor([self.prefixes[outputs[row]][length] for row in begun], dtype=torch.long), device
        )
        forced = log_probs[rows, :, tokens]  # (n, W): a prefix may hold what is never chosen
        log_probs.index_fill_(2, never, -torch.inf)
        if self.no_repeat_ngram_size or self.max_repeats or self.banned:
            read = ids if begin is None else torch.cat([begin, ids], dim=2)  # (B, W, P + T)
            if 0 < self.no_repeat_ngram_size <= read.size(2):
                _take_away_repeated(log_probs, read, self.no_repeat_ngram_size)
            if self.max_repeats:
                _take_away_loops(log_probs, read, self.max_repeats)
            _take_away_banned(log_probs, read, self.banned)
        if length < self.min_length:
            early = [length < min(self.min_length, limits[output]) for output in outputs]
            masked = to_device_async(torch.tensor(early), device)[:, None]  # (B, 1)
            log_probs[:, :, end] = log_probs[:, :, end].masked_fill(masked, -torch.inf)
        stuck = (log_probs == -torch.inf).all(dim=2)  # (B, W)
        log_probs[:, :, end] = torch.where(stuck, ends, log_probs[:, :, end])
        if begun:
            log_probs[rows] = -torch.inf
            log_probs[rows, :, tokens] = forced


def merge_constraints(constraints: Constraints | None, decode: DecodeConfig) -> Constraints | None:
    """Returns the constraints merged with the constraints in the settings; None if there are none."""
    if not decode.has_constraints:
        return constraints
    given = constraints or Constraints()
    return replace(
        given,
        min_length=given.min_length or decode.min_length,
        no_repeat_ngram_size=given.no_repeat_ngram_size or decode.no_repeat_ngram_size,
        banned=(*given.banned, *decode.banned),
    )


def _take_away_banned(log_probs: Tensor, ids: Tensor, banned: tuple[tuple[int, ...], ...]) -> None:
    """Writes minus infinity where a token would complete a banned sequence after the tokens `ids` (B, W, T)."""
    for firsts, lasts in _group_by_length(banned, ids.device):
        size = firsts.size(1)
        if size <= ids.size(2):
            complete = (ids[:, :, None, -size:] == firsts).all(dim=3)  # (B, W, n)
            least = torch.full(complete.shape, torch.inf, device=ids.device).masked_fill(complete, -torch.inf)
            log_probs.scatter_reduce_(2, lasts.expand(complete.shape), least, "amin")


@lru_cache(maxsize=8)
def _group_by_length(banned: tuple[tuple[int, ...], ...], device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """Returns the sequences of each length: all ids but the last, (n, size), and the last, (n,)."""
    found = []
    for size in sorted({len(sequence) for sequence in banned}):
        ids = to_device_async(
            torch.tensor([sequence for sequence in banned if len(sequence) == size]), device
        )  # (n, size + 1)
        found.append((ids[:, :-1], ids[:, -1]))
    return found


def _take_away_repeated(log_probs: Tensor, ids: Tensor, size: int) -> None:
    """Writes minus infinity where a token would repeat an n-gram of `size` tokens of the output (B, W, T)."""
    runs = ids.unfold(2, size, 1)  # (B, W, T - size + 1, size)
    last = ids[:, :, ids.size(2) - size + 1 :]  # (B, W, size - 1)
    again = (runs[..., :-1] == last[:, :, None]).all(dim=3)  # (B, W, T - size + 1)
    least = torch.full(again.shape, torch.inf, device=log_probs.device).masked_fill(again, -torch.inf)
    log_probs.scatter_reduce_(2, runs[..., -1], least, "amin")


def _take_away_loops(log_probs: Tensor, ids: Tensor, times: int) -> None:
    """Writes minus infinity where a token would complete a run of the output (B, W, T) once more than `times`."""
    length = ids.size(2)
    for size in range(1, min(LONGEST_RUN, (length + 1) // (times + 1)) + 1):
        equal = times * size - 1  # tokens that must equal the token `size` places before them
        last = ids[:, :, length - equal :] if equal else ids[:, :, :0]
        before = ids[:, :, length - equal - size : length - size]
        again = (last == before).all(dim=2)  # (B, W)
        tokens = ids[:, :, length - size, None]
        least = torch.full_like(tokens, torch.inf, dtype=log_probs.dtype).masked_fill(again[..., None], -torch.inf)
        log_probs.scatter_reduce_(2, tokens, least, "amin")
