"""The counts of a text's characters, and which of them a vocabulary has room for.

A script has fifty characters or five thousand, and each takes a place that a longer piece could have had. With byte
fallback none is needed: what has no place is written as its bytes.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from pellucid.text.normalization import SPACE_MARK

MOST = 0.4
"""The largest part of a vocabulary that single characters take, where bytes can write the others."""
COVERAGE = 0.9999
"""The part of a text whose characters are kept where there is room; the rarest are better written as bytes."""


@dataclass(frozen=True)
class Inventory:
    """The characters of a text, a space as SentencePiece's mark of one."""

    counts: Counter[str]

    @classmethod
    def of(cls, lines: Iterable[str]) -> "Inventory":
        """Returns the inventory of the lines; SentencePiece puts a space before each."""
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
        """Returns the characters, the most frequent first, the alphabet deciding between equals."""
        return sorted(self.counts, key=lambda character: (-self.counts[character], character))

    def needed(self, coverage: float) -> int:
        """Returns how many of the most frequent characters make up so large a part of the text."""
        wanted = coverage * self.counts.total()
        sums = accumulate(self.counts[character] for character in self.ranked)
        return next((number for number, covered in enumerate(sums, start=1) if covered >= wanted), len(self))

    def share(self, number: int) -> float:
        """Returns the part of the text that the `number` most frequent characters make up."""
        return sum(self.counts[character] for character in self.ranked[:number]) / self.counts.total()

    def overlap(self, other: "Inventory") -> float:
        """Returns how much of two texts is written in the same letters: 1 for equal frequencies, 0 for no letter.

        Texts without letters have all in common.
        """
        mine, theirs = self._letters, other._letters
        if not mine or not theirs:
            return 1.0
        return sum(min(share, theirs.get(letter, 0.0)) for letter, share in mine.items())

    @cached_property
    def _letters(self) -> dict[str, float]:
        letters = {character: count for character, count in self.counts.items() if character.isalpha()}
        return {letter: count / sum(letters.values()) for letter, count in letters.items()}
