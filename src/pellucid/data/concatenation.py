"""Concatenation of some pairs of an epoch with others, so that a model is trained on lines of several sentences."""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from pellucid.data.sentences import Indices, Sentences
from pellucid.text.sentences import space_between
from pellucid.text.tokenizers import TokenizerPair

Ids = npt.NDArray[np.int64]
NOBODY = -1
_MOST = 2  # pairs that are appended to an example, at most
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2 ^ 64 divided by the golden ratio, odd


@dataclass(frozen=True)
class Concatenation:
    """Joins some examples of an epoch with other pairs, which are a function of (seed, epoch, example) alone.

    Source: Nguyen, Salazar and Chiang, "Data augmentation by concatenation for low-resource translation"
    (arXiv 2105.01691), where random pairs do as well as neighbouring ones.
    """

    source: Sentences
    target: Sentences
    """Both sides of the pairs, with their texts."""
    corpora: tuple[tuple[int, float], ...]
    """(sentences, weight) of each corpus, in order; if empty, one corpus."""
    tokenizers: TokenizerPair
    part: float
    """The probability that an example is joined, equally often with one and with two other pairs."""
    seed: int
    longest: int
    """In tokens: a pair that would make a side of the joint line longer is not appended."""
    marks: frozenset[str] = frozenset()
    """Tags and other symbols: a mark at the beginning of the line is not repeated."""

    def partners(self, epoch: int, draws: Indices) -> Indices:
        """Returns (N, 2): the pairs to append to each example of BucketBatchSampler, NOBODY for none.

        They are from the example's own corpus, and so of the same languages. A truncated side has no text, and is
        never joined.
        """
        found = np.full((len(draws), _MOST), NOBODY, np.int64)
        chosen = self._numbers(epoch, draws, 0) < self.part
        rows = np.flatnonzero(chosen & self._has_text(draws % len(self.source)))
        sampled = draws[rows]
        start, size = self._find_corpus(sampled % len(self.source))
        count = 1 + np.floor(self._numbers(epoch, sampled, 1) * _MOST)
        lengths = self._lengths(sampled % len(self.source))
        for place in range(_MOST):
            partner = start + (self._numbers(epoch, sampled, 2 + place) * size).astype(np.int64)
            joined = lengths + self._lengths(partner) + 1  # the space between may be a token
            fits = (place < count) & (joined <= self.longest).all(axis=0) & self._has_text(partner)
            found[rows[fits], place] = partner[fits]
            lengths = np.where(fits, joined, lengths)
        return found

    def count_added_tokens(self, epoch: int, draws: Indices) -> tuple[Indices, Indices]:
        """Returns upper bounds of the source and target tokens that the partners add to each example."""
        partners = self.partners(epoch, draws)
        there = partners != NOBODY
        source, target = np.where(there, self._lengths(np.where(there, partners, 0)) + 1, 0).sum(axis=-1)
        return source, target

    def lines(self, epoch: int, draws: Indices) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yields the index of each joined example in the argument, and source and target of its line."""
        partners = self.partners(epoch, draws)
        for row in np.flatnonzero((partners != NOBODY).any(axis=1)).tolist():
            pairs = [int(draws[row]) % len(self.source), *(pair for pair in partners[row].tolist() if pair != NOBODY)]
            yield row, (_line(self.source, pairs, self.marks), _line(self.target, pairs, self.marks))

    def encode(self, line: tuple[str, str]) -> tuple[Ids, Ids]:
        """Returns the ids of both sides of a line, as when the line is translated."""
        source, target = self.tokenizers.source.encode(line[0]), self.tokenizers.target.encode(line[1])
        return np.array(source, np.int64), np.array(target, np.int64)

    def _numbers(self, epoch: int, draws: Indices, which: int) -> npt.NDArray[np.float64]:
        """Returns a number in [0, 1) for each example; `which` distinguishes the numbers of one example.

        SplitMix64 (Steele, Lea and Flood 2014) computes the number of any example without the preceding ones.
        """
        start = np.random.SeedSequence([self.seed, epoch, which]).generate_state(1, np.uint64)[0]
        x = start + (draws.astype(np.uint64) + np.uint64(1)) * _GOLDEN  # arrays wrap around, modulo 2 ^ 64
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
        return np.asarray((x >> np.uint64(11)) * 2.0**-53)

    def _lengths(self, pairs: Indices) -> Indices:
        """Returns (2, ...): the tokens of both sides of each pair."""
        return np.stack([side.offsets[pairs + 1] - side.offsets[pairs] for side in (self.source, self.target)])

    def _has_text(self, pairs: Indices) -> npt.NDArray[np.bool_]:
        source, target = self.source.texts, self.target.texts
        assert source is not None, "joined pairs store their texts"
        assert target is not None
        sizes = np.stack([texts.bounds[pairs + 1] - texts.bounds[pairs] for texts in (source, target)])
        return np.asarray((sizes > 0).all(axis=0))

    def _find_corpus(self, pairs: Indices) -> tuple[Indices, Indices]:
        """Returns the start of the corpus of each pair, and its number of pairs."""
        sizes = np.array([size for size, _ in self.corpora] or [len(self.source)])
        ends = np.cumsum(sizes)
        corpus = np.searchsorted(ends, pairs, side="right")
        return (ends - sizes)[corpus], sizes[corpus]


def _line(side: Sentences, pairs: list[int], marks: Container[str]) -> str:
    assert side.texts is not None
    line = side.texts[pairs[0]]
    begun = list(takewhile(lambda word: word in marks, line.split()))
    for pair in pairs[1:]:
        after = side.texts[pair]
        for mark in begun:
            after = after.lstrip().removeprefix(f"{mark} ")
        line = line.rstrip() + space_between(line, after) + after.lstrip()
    return line
