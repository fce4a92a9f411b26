"""A dictionary as training text: its entries become pairs where real text hardly has the word (Fadaee et al. 2017)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.config import DataConfig
from pellucid.distillation.sides import write_sides
from pellucid.errors import ConfigError, argument, quoted
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

        A term is found as a glossary finds it, as whole words; within a longer one, too.
        """
        glossary = Glossary((source, str(number)) for number, (source, _) in enumerate(self.pairs))
        seen = Counter[int]()
        for line in sources:
            seen.update(map(int, glossary.occurring(line)))
        rare = [pair for number, pair in enumerate(self.pairs) if seen[number] < self.rare]
        return write_sides([folder / side for side in SIDES], [*dict.fromkeys(rare)])

    @staticmethod
    def check(data: DataConfig) -> None:
        """Raises ConfigError where a training on such texts cannot have a dictionary beside them."""
        if not data.src:
            raise ConfigError(
                "a dictionary's rare words are those that real pairs hardly have, and none are known",
                "name them by `src=` and `tgt=`",
            )
        for name, value in {"tags": [*data.tags], "temperature": data.temperature}.items():
            if value:
                raise ConfigError(
                    f"`data.{name}` ({quoted(value)}) mixes corpora, and does not say how a dictionary is to be one",
                    "name the dictionary as one of them: a .tsv in `src=`",
                )
