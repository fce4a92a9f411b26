"""A dictionary as training text: its entries become pairs where real text hardly has the word (Fadaee et al. 2017)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.distillation.sides import write_sides
from pellucid.errors import ConfigError, argument
from pellucid.text.glossary import Glossary

SIDES = ("dictionary.src", "dictionary.tgt")


@dataclass(frozen=True)
class Dictionary:
    """Pairs of a source term and its translation, in the direction of the training to come."""

    pairs: Sequence[tuple[str, str]]
    rare: int = 10
    """A term is rare where fewer real sources than this have it."""

    def __post_init__(self) -> None:
        if self.rare < 1:
            raise ConfigError(f"{argument('rare', self.rare)} must be at least 1", "1 takes what no source has")

    def write(self, folder: Path, sources: Iterable[str]) -> int:
        """Writes the entries whose term is rare among the `sources` as two files; returns how many these are.

        A term is found as a glossary finds it: as whole words, the longest first.
        """
        glossary = Glossary((source, str(number)) for number, (source, _) in enumerate(self.pairs))
        seen = Counter[int]()
        for line in sources:
            seen.update({int(number) for entries in glossary.asked_by(line) for number in entries})
        rare = [pair for number, pair in enumerate(self.pairs) if seen[number] < self.rare]
        return write_sides([folder / side for side in SIDES], [*dict.fromkeys(rare)])
