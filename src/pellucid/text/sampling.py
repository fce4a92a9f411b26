"""The same text in other pieces each time: BPE-dropout (Provilkov et al. 2020), unigram sampling (Kudo 2018).

SentencePiece has both, but what it draws differs from process to process, whatever the seed. Here all randomness comes
from a generator that the caller hands in.

A text falls into stretches that can be cut by themselves: where two neighbours are side by side in no piece, each cut
has a border. Most stretches are words, and most words come again and again, so what they can be cut into is kept.
"""

import re
from bisect import bisect
from collections.abc import Iterable
from functools import lru_cache
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from math import exp, inf, log, log1p
from random import Random

from pellucid.errors import ConfigError
from pellucid.text.sentencepiece_file import Pieces, read_pieces
from pellucid.text.subwords import SUBWORD_KINDS, Subwords
from pellucid.text.tokenizer import CompleteTokenizer

_NEVER = 1 << 60
_LEAST_FLATNESS = 1e-9
_UNKNOWN_PENALTY = 10.0  # how far SentencePiece puts an unknown character below the least probable piece
_LONGEST_KEPT = 32  # characters: a longer stretch hardly comes again
# What is kept takes some 50 MB at most.
_MOST_MERGED = 1 << 17
_MOST_LATTICES = 1 << 14

Ids = tuple[int, ...]
Exceptions = tuple[tuple[int, int], ...]


class SubwordSampler:
    """Draws the pieces of texts for one tokenizer."""

    def __init__(self, tokenizer: CompleteTokenizer, strength: float) -> None:
        """Takes a `strength`: the probability of leaving a merge out (bpe), or the flatness of the distribution
        (unigram).

        Raises ConfigError for a tokenizer that has no pieces to choose from.
        """
        if not isinstance(tokenizer, Subwords):
            raise _one_way_only(strength, f"the tokenizer `{tokenizer.kind}`")
        pieces = read_pieces(tokenizer.proto)
        if pieces.algorithm not in SUBWORD_KINDS:
            raise _one_way_only(strength, f"a SentencePiece model of the kind `{pieces.algorithm}`")
        self.unk_id: int = pieces.unk_id
        self._tokenizer = tokenizer
        self._pieces = pieces
        self._cutter = (MergeDropout if pieces.algorithm == "bpe" else LatticeSampling)(pieces, strength)
        self._neighbours = {piece[i : i + 2] for piece in pieces.ids for i in range(len(piece) - 1)}
        symbols = sorted(pieces.symbols, key=len, reverse=True)  # of two that fit, the longer one stands
        self._symbols = re.compile(f"({'|'.join(map(re.escape, symbols))})") if symbols else None

    def sample(self, text: str, random: Random) -> list[int]:
        """Returns ids that decode to what the tokenizer's own ids of `text` decode to; equal for equal generators."""
        normalized = self._tokenizer.normalized(text)
        ids: list[int] = []
        for part in self._symbols.split(normalized) if self._symbols else [normalized]:
            if part in self._pieces.symbols:
                ids.append(self._pieces.symbols[part])
            else:
                ids += self._cutter.cut(self._stretches(part), random)
        return ids if self._pieces.byte_ids else _unknown_runs_joined(ids, self.unk_id)

    def _stretches(self, text: str) -> list[str]:
        borders = [i for i in range(1, len(text)) if text[i - 1 : i + 1] not in self._neighbours]
        return [text[start:end] for start, end in pairwise([0, *borders, len(text)])]


class MergeDropout:
    """BPE where at each merge each of those possible is left out with a probability, and the best of the others made.

    What is left out is possible again at the next merge, as in the paper's algorithm 1; a stretch is done when nothing
    is possible or all is left out at once. (In SentencePiece's own sampling a merge that is left out stays out, which
    leaves about twice as many pieces.) So the pieces follow from the few merges at which the best one is left out, and
    from how many of the next best are with it.
    """

    def __init__(self, pieces: Pieces, probability: float) -> None:
        self._pieces = pieces
        self._log_left_out = log(probability) if probability else -inf
        self._log_made = log1p(-probability)
        self._merged = lru_cache(_MOST_MERGED)(self._merge)

    def cut(self, stretches: Iterable[str], random: Random) -> list[int]:
        """Returns the ids of the stretches one after another."""
        ids: list[int] = []
        gap = self._gap(random)
        for stretch in stretches:
            merged = self._merged if len(stretch) <= _LONGEST_KEPT else self._merge
            exceptions, passed = Exceptions(), 0
            drawn, made = merged(stretch, exceptions)
            while passed + gap < made:
                exceptions = (*exceptions, (passed + gap, self._left_out(random)))
                passed += gap + 1
                drawn, made = merged(stretch, exceptions)
                gap = self._gap(random)
            gap -= made - passed
            ids += drawn
        return ids

    def _gap(self, random: Random) -> int:
        """Draws how many merges are the best ones before one is not: geometrically distributed."""
        return int(min(log(1.0 - random.random()) / self._log_made, _NEVER)) if self._log_made else _NEVER

    def _left_out(self, random: Random) -> int:
        """Draws how many are left out where the best one is: at least that one, then geometrically distributed."""
        return 1 + int(min(log(1.0 - random.random()) / self._log_left_out, _NEVER))

    def _merge(self, stretch: str, exceptions: Exceptions) -> tuple[Ids, int]:
        """Returns the ids of a stretch, and at how many merges there was something to leave out.

        `exceptions` has the numbers of merges, in their order, at which not the best is made, and how many are left
        out there.
        """
        scores = self._pieces.scores
        parts = list(stretch)
        before = list(range(-1, len(parts) - 1))
        behind = list(range(1, len(parts) + 1))
        agenda: list[tuple[float, int, int, int]] = []

        def offer(left: int, right: int) -> None:
            score = scores.get(parts[left] + parts[right])
            if score is not None:
                heappush(agenda, (-score, left, right, len(parts[left]) + len(parts[right])))

        for left in range(len(parts) - 1):
            offer(left, left + 1)
        left_out = dict(exceptions)
        made, aside = 0, list[tuple[float, int, int, int]]()
        while agenda:
            best = heappop(agenda)
            _, left, right, length = best
            if not parts[left] or not parts[right] or len(parts[left]) + len(parts[right]) != length:
                continue  # one of the two has become part of another piece
            if len(aside) < left_out.get(made, 0):
                aside.append(best)
                continue
            for skipped in aside:
                heappush(agenda, skipped)
            aside.clear()
            made += 1
            parts[left] += parts[right]
            parts[right] = ""
            behind[left] = behind[right]
            if before[left] >= 0:
                offer(before[left], left)
            if behind[left] < len(parts):
                before[behind[left]] = left
                offer(left, behind[left])
        return tuple(i for part in parts if part for i in self._pieces.ids_of(part)), made + bool(aside)


class LatticeSampling:
    """Cuts drawn by their probability under the unigram model to the power (1 - flatness) / flatness.

    So a flatness of 0.5 draws from the model's own distribution, a lower one more of the best cuts, and near 1 all cuts
    are alike. Kudo's alpha is that power: his 0.2 and 0.1 are a flatness of 0.83 and 0.91. Drawn exactly, by filtering
    forward and sampling backward.
    """

    def __init__(self, pieces: Pieces, flatness: float) -> None:
        flatness = max(flatness, _LEAST_FLATNESS)
        power = (1.0 - flatness) / flatness
        self._entries = {piece: (power * score, pieces.ids_of(piece)) for piece, score in pieces.scores.items()}
        self._unknown = power * (min(pieces.scores.values()) - _UNKNOWN_PENALTY)
        self._pieces = pieces
        self._longest = max(map(len, pieces.ids))
        self._lattice = lru_cache(_MOST_LATTICES)(self._filtered)

    def cut(self, stretches: Iterable[str], random: Random) -> list[int]:
        """Returns the ids of the stretches one after another."""
        ids: list[int] = []
        for stretch in stretches:
            lattice, drawn, end = self._lattice(stretch), list[Ids](), len(stretch)
            while end:
                cumulative, arrivals = lattice[end - 1]
                end, last = arrivals[bisect(cumulative, random.random())]
                drawn.append(last)
            for last in reversed(drawn):
                ids += last
        return ids

    def _filtered(self, stretch: str) -> list[tuple[list[float], list[tuple[int, Ids]]]]:
        """Returns for each end where a last piece may start, its ids, and how probable it is or one before it."""
        sums, lattice = [0.0], []
        for end in range(1, len(stretch) + 1):
            arrivals, logs = list[tuple[int, Ids]](), list[float]()
            for start in range(max(0, end - self._longest), end):
                if entry := self._entries.get(stretch[start:end]):
                    arrivals.append((start, entry[1]))
                    logs.append(sums[start] + entry[0])
            if stretch[end - 1] not in self._entries:
                arrivals.append((end - 1, self._pieces.ids_of(stretch[end - 1])))
                logs.append(sums[end - 1] + self._unknown)
            highest = max(logs)
            weights = list(accumulate(exp(value - highest) for value in logs))
            sums.append(highest + log(weights[-1]))
            lattice.append(([weight / weights[-1] for weight in weights[:-1]], arrivals))
        return lattice


def _one_way_only(strength: float, tokenizer: str) -> ConfigError:
    return ConfigError(
        f"`subword_sampling = {strength:g}` means nothing to {tokenizer}: it cuts a text in one way only",
        f"leave it out, or choose one of {', '.join(SUBWORD_KINDS)}, or a SentencePiece model of one of these kinds",
    )


def _unknown_runs_joined(ids: list[int], unk_id: int) -> list[int]:
    """Returns the ids with unknown characters in a row as one unknown piece, as SentencePiece writes them."""
    return [i for j, i in enumerate(ids) if i != unk_id or j == 0 or ids[j - 1] != unk_id]
