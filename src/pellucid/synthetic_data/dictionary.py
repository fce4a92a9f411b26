"""Turns a dictionary into training pairs for terms that are rare in the real text (Fadaee et al. 2017)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.config import DataConfig
from pellucid.errors import ConfigError, format_argument, format_quoted
from pellucid.synthetic_data.corpus import write_sides
from pellucid.text.glossary import Glossary

SIDES = ("dictionary.src", "dictionary.tgt")


@dataclass(frozen=True)
class Dictionary:
    """Pairs of a source term and its translation, in the direction of the planned training."""

    pairs: Sequence[tuple[str, str]]
    rare_below: int = 10
    """A term is rare if fewer real sources than this contain it."""

    def __post_init__(self) -> None:
        if self.rare_below < 1:
            raise ConfigError(
                f"{format_argument('rare_below', self.rare_below)} must be at least 1",
                "1 selects words that no source has",
            )

    def write(self, folder: Path, sources: Iterable[str]) -> int:
        """Writes the entries whose term is rare among the `sources` as two files; returns their number.

        Terms are matched as in a glossary: as whole words, also inside a longer term.
        """
        glossary = Glossary((source, str(number)) for number, (source, _) in enumerate(self.pairs))
        seen = Counter[int]()
        for line in sources:
            seen.update(map(int, glossary.find_all(line)))
        rare = [pair for number, pair in enumerate(self.pairs) if seen[number] < self.rare_below]
        return write_sides([folder / side for side in SIDES], [*dict.fromkeys(rare)])

    @staticmethod
    def check(data: DataConfig) -> None:
        """Raises ConfigError if a training on such texts cannot also use a dictionary."""
        if not data.src:
            raise ConfigError(
                "rare words of a dictionary are determined from real pairs, and none are given",
                "name the real pairs with `src=` and `tgt=`",
            )
        for name, value in {
            "corpus_tags": [*data.corpus_tags],
            "sampling_temperature": data.sampling_temperature,
        }.items():
            if value:
                raise ConfigError(
                    f"`data.{name}` ({format_quoted(value)}) mixes corpora, and has no value for the dictionary",
                    "add the dictionary to the corpora: a .tsv file in `src=`",
                )
