"""Counts the characters of a text, to choose the characters of a vocabulary.

A script has fifty characters or five thousand, and each takes a vocabulary entry that a longer piece could use. With
byte fallback no character needs an entry: characters without one are written as bytes.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from pellucid.text.normalization import SPACE_MARK

MOST = 0.4
"""The largest share of a vocabulary for single characters, if byte fallback can write the others."""
COVERAGE = 0.9999
"""The share of a text whose characters are kept if there is room; the rarest are better written as bytes."""


@dataclass(frozen=True)
class CharacterCounts:
    """The character counts of a text; spaces are counted as SentencePiece's space mark."""

    counts: Counter[str]

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> "CharacterCounts":
        """Returns the counts of the lines, with the space that SentencePiece puts before each."""
        inventory = cls(Counter())
        for line in lines:
            inventory.add(line)
        return inventory

    def add(self, line: str) -> None:
        """Counts the characters of one more line."""
        self.counts.update(line)
        self.counts[SPACE_MARK] += self.counts.pop(" ", 0) + 1

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def ranked(self) -> list[str]:
        """Returns the characters, the most frequent first; ties are in alphabetical order."""
        return sorted(self.counts, key=lambda character: (-self.counts[character], character))

    def count_for_coverage(self, coverage: float) -> int:
        """Returns the smallest number of most frequent characters that cover the share `coverage` of the text."""
        wanted = coverage * self.counts.total()
        sums = accumulate(self.counts[character] for character in self.ranked)
        return next((number for number, covered in enumerate(sums, start=1) if covered >= wanted), len(self))

    def share(self, number: int) -> float:
        """Returns the share of the text that the `number` most frequent characters cover."""
        return sum(self.counts[character] for character in self.ranked[:number]) / self.counts.total()

    def overlap(self, other: "CharacterCounts") -> float:
        """Returns the overlap of two texts' letter frequencies: 1 if they are equal, 0 if no letter is shared.

        If a text has no letters, the overlap is 1.
        """
        mine, theirs = self._letters, other._letters
        if not mine or not theirs:
            return 1.0
        return sum(min(share, theirs.get(letter, 0.0)) for letter, share in mine.items())

    @cached_property
    def _letters(self) -> dict[str, float]:
        letters = {character: count for character, count in self.counts.items() if character.isalpha()}
        return {letter: count / sum(letters.values()) for letter, count in letters.items()}
