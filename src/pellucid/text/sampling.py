"""Subword regularization: BPE-dropout (Provilkov et al. 2020) and unigram sampling (Kudo 2018).

SentencePiece has both, but its samples differ between processes, whatever the seed. Here all randomness comes from a
generator that the caller passes.

A text is divided into chunks that can be segmented independently: between two characters that are adjacent in no piece,
every segmentation has a boundary. Most chunks are words, and most words recur, so their segmentations are cached.
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
from pellucid.text.sentencepiece_file import SentencePieceVocab, read_pieces
from pellucid.text.subwords import SUBWORD_KINDS, SentencePieceTokenizer
from pellucid.text.tokenizer import TokenizerBase

_NEVER = 1 << 60
_LEAST_FLATNESS = 1e-9
_UNKNOWN_PENALTY = 10.0  # SentencePiece scores an unknown character this far below the least probable piece
_LONGEST_KEPT = 32  # characters: a longer chunk hardly recurs
# The caches take at most some 50 MB.
_MOST_MERGED = 1 << 17
_MOST_LATTICES = 1 << 14

Ids = tuple[int, ...]
Exceptions = tuple[tuple[int, int], ...]


class SubwordSampler:
    """Samples segmentations of texts for one tokenizer."""

    def __init__(self, tokenizer: TokenizerBase, strength: float) -> None:
        """Takes a `strength`: the probability of dropping a merge (bpe), or the flatness of the distribution (unigram).

        Raises ConfigError for a tokenizer that has only one segmentation per text.
        """
        if not isinstance(tokenizer, SentencePieceTokenizer):
            raise _one_way_only(strength, f"the tokenizer `{tokenizer.kind}`")
        pieces = read_pieces(tokenizer.proto)
        if pieces.algorithm not in SUBWORD_KINDS:
            raise _one_way_only(strength, f"a SentencePiece model of the kind `{pieces.algorithm}`")
        self.unk_id: int = pieces.unk_id
        self._tokenizer = tokenizer
        self._pieces = pieces
        self._cutter = (BPEDropout if pieces.algorithm == "bpe" else UnigramSampling)(pieces, strength)
        self._neighbours = {piece[i : i + 2] for piece in pieces.ids for i in range(len(piece) - 1)}
        symbols = sorted(pieces.symbols, key=len, reverse=True)  # the longest match wins
        self._symbols = re.compile(f"({'|'.join(map(re.escape, symbols))})") if symbols else None

    def sample(self, text: str, random: Random) -> list[int]:
        """Returns sampled ids of `text`, which decode to the same text as encode()'s; equal for equal generators."""
        normalized = self._tokenizer.normalize(text)
        ids: list[int] = []
        for part in self._symbols.split(normalized) if self._symbols else [normalized]:
            if part in self._pieces.symbols:
                ids.append(self._pieces.symbols[part])
            else:
                ids += self._cutter.sample(self._chunks(part), random)
        return ids if self._pieces.byte_ids else _unknown_runs_joined(ids, self.unk_id)

    def _chunks(self, text: str) -> list[str]:
        borders = [i for i in range(1, len(text)) if text[i - 1 : i + 1] not in self._neighbours]
        return [text[start:end] for start, end in pairwise([0, *borders, len(text)])]


class BPEDropout:
    """BPE-dropout: at each step every possible merge is dropped with a probability, and the best remaining one is made.

    A dropped merge is possible again at the next step, as in the paper's algorithm 1; a chunk is done when no merge is
    possible or all are dropped at once. (In SentencePiece's own sampling a dropped merge stays dropped, which gives
    about twice as many pieces.) So the pieces follow from the few steps at which the best merge is dropped, and from
    the number of merges dropped there.
    """

    def __init__(self, pieces: SentencePieceVocab, probability: float) -> None:
        self._pieces = pieces
        self._log_left_out = log(probability) if probability else -inf
        self._log_made = log1p(-probability)
        self._merged = lru_cache(_MOST_MERGED)(self._merge)

    def sample(self, chunks: Iterable[str], random: Random) -> list[int]:
        """Returns the concatenated ids of the chunks."""
        ids: list[int] = []
        gap = self._gap(random)
        for chunk in chunks:
            merged = self._merged if len(chunk) <= _LONGEST_KEPT else self._merge
            exceptions, passed = Exceptions(), 0
            sampled, made = merged(chunk, exceptions)
            while passed + gap < made:
                exceptions = (*exceptions, (passed + gap, self._sample_skipped(random)))
                passed += gap + 1
                sampled, made = merged(chunk, exceptions)
                gap = self._gap(random)
            gap -= made - passed
            ids += sampled
        return ids

    def _gap(self, random: Random) -> int:
        """Samples the number of steps until the best merge is dropped (geometric distribution)."""
        return int(min(log(1.0 - random.random()) / self._log_made, _NEVER)) if self._log_made else _NEVER

    def _sample_skipped(self, random: Random) -> int:
        """Samples the number of merges dropped at such a step: the best one and a geometric number of others."""
        return 1 + int(min(log(1.0 - random.random()) / self._log_left_out, _NEVER))

    def _merge(self, chunk: str, exceptions: Exceptions) -> tuple[Ids, int]:
        """Returns the ids of a chunk, and the number of steps at which a merge could be dropped.

        `exceptions` lists, in order, the steps at which the best merge is dropped, and the number of merges dropped
        there.
        """
        scores = self._pieces.scores
        parts = list(chunk)
        before = list(range(-1, len(parts) - 1))
        after_index = list(range(1, len(parts) + 1))
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
            after_index[left] = after_index[right]
            if before[left] >= 0:
                offer(before[left], left)
            if after_index[left] < len(parts):
                before[after_index[left]] = left
                offer(left, after_index[left])
        return tuple(i for part in parts if part for i in self._pieces.get_ids(part)), made + bool(aside)


class UnigramSampling:
    """Samples segmentations by their probability under the unigram model to the power (1 - flatness) / flatness.

    A flatness of 0.5 samples from the model's own distribution, a lower one prefers the best segmentations, and near 1
    all segmentations are about equally probable. Kudo's alpha is that power: his 0.2 and 0.1 are a flatness of 0.83 and
    0.91. The samples are exact, by forward filtering and backward sampling.
    """

    def __init__(self, pieces: SentencePieceVocab, flatness: float) -> None:
        flatness = max(flatness, _LEAST_FLATNESS)
        power = (1.0 - flatness) / flatness
        self._entries = {piece: (power * score, pieces.get_ids(piece)) for piece, score in pieces.scores.items()}
        self._unknown = power * (min(pieces.scores.values()) - _UNKNOWN_PENALTY)
        self._pieces = pieces
        self._longest = max(map(len, pieces.ids))
        self._lattice = lru_cache(_MOST_LATTICES)(self._filter_forward)

    def sample(self, chunks: Iterable[str], random: Random) -> list[int]:
        """Returns the concatenated ids of the chunks."""
        ids: list[int] = []
        for chunk in chunks:
            lattice, sampled, end = self._lattice(chunk), list[Ids](), len(chunk)
            while end:
                cumulative, arrivals = lattice[end - 1]
                end, last = arrivals[bisect(cumulative, random.random())]
                sampled.append(last)
            for last in reversed(sampled):
                ids += last
        return ids

    def _filter_forward(self, chunk: str) -> list[tuple[list[float], list[tuple[int, Ids]]]]:
        """Returns for each end the possible last pieces (start and ids), with their cumulative probabilities."""
        sums, lattice = [0.0], []
        for end in range(1, len(chunk) + 1):
            arrivals, logs = list[tuple[int, Ids]](), list[float]()
            for start in range(max(0, end - self._longest), end):
                if entry := self._entries.get(chunk[start:end]):
                    arrivals.append((start, entry[1]))
                    logs.append(sums[start] + entry[0])
            if chunk[end - 1] not in self._entries:
                arrivals.append((end - 1, self._pieces.get_ids(chunk[end - 1])))
                logs.append(sums[end - 1] + self._unknown)
            highest = max(logs)
            weights = list(accumulate(exp(value - highest) for value in logs))
            sums.append(highest + log(weights[-1]))
            lattice.append(([weight / weights[-1] for weight in weights[:-1]], arrivals))
        return lattice


def _one_way_only(strength: float, tokenizer: str) -> ConfigError:
    return ConfigError(
        f"`subword_regularization = {strength:g}` has no effect on {tokenizer}, which has only one segmentation of a "
        f"text",
        f"leave it out, or choose one of {', '.join(SUBWORD_KINDS)}, or a SentencePiece model of one of these kinds",
    )


def _unknown_runs_joined(ids: list[int], unk_id: int) -> list[int]:
    """Returns the ids with each run of unknown characters as one unknown id, as in SentencePiece."""
    return [i for j, i in enumerate(ids) if i != unk_id or j == 0 or ids[j - 1] != unk_id]
