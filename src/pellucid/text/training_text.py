"""The lines that a translator was trained on, in a few numbers: their lengths, scripts and sentences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from pellucid.config.tables import check_at_least, check_fields
from pellucid.errors import ConfigError
from pellucid.text.sentences import ends_as_sentence, script_of, sentences

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Counts = npt.NDArray[np.int64]
    """The number of lines of each length, from 0 on."""

USUAL = 0.999
"""The part of the lines that is not longer than what counts as the usual length."""
MOSTLY = 0.5
"""The part of the lines that has to end as sentences do, for lines to be sentences at all."""
FEW = 0.1
"""The share of lines of several sentences below which a model has hardly seen such lines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingText:
    """The known facts about the lines that a translator was trained on; None: not known."""

    source_length: int | None = None
    """Tokens that 999 of 1,000 source lines do not exceed."""
    source_longest: int | None = None
    """Tokens of the longest source line."""
    target_length: int | None = None
    target_longest: int | None = None
    source_script: str = ""
    """The script of most source lines, such as Latin or Hangul."""
    target_script: str = ""
    sentence_ends: float | None = None
    """The part of the source lines that end as sentences do."""
    several_sentences: float | None = None
    """The part of the source lines that hold more than one sentence."""
    pairs: tuple[str, ...] = ()
    """The pairs of languages that a model of several was trained on, as in "de-en"."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(self, ("source_length", "source_longest", "target_length", "target_longest"), 0)
        for name in ("sentence_ends", "several_sentences"):
            if not 0 <= (getattr(self, name) or 0) <= 1:
                raise ConfigError(f"`{name}` ({getattr(self, name)}) must be a part of the lines, from 0 to 1")

    @classmethod
    def of(cls, source_lengths: "Counts", target_lengths: "Counts", sample: "Sample") -> Self:
        """Returns what the lengths of all lines and a sample of their texts tell.

        `source_lengths[n]` is the number of lines with n source tokens.
        """
        if not sample.pairs:
            return cls()
        sources, targets = zip(*sample.pairs, strict=True)
        return cls(
            source_length=_usual(source_lengths),
            source_longest=len(source_lengths) - 1,
            target_length=_usual(target_lengths),
            target_longest=len(target_lengths) - 1,
            source_script=_script(sources),
            target_script=_script(targets),
            sentence_ends=round(sum(map(ends_as_sentence, sources)) / len(sources), 4),
            several_sentences=round(sum(len(sentences(line)) > 1 for line in sources) / len(sources), 4),
        )

    @property
    def is_sentences(self) -> bool:
        """Tells whether the lines were made of sentences; dates, names and the like are not."""
        return self.sentence_ends is not None and self.sentence_ends >= MOSTLY

    def is_unlike(self, length: int) -> bool:
        """Tells whether a line of several sentences, `length` tokens in all, is unlike what was trained on."""
        return self.is_sentences and ((self.several_sentences or 0.0) < FEW or self.is_too_long(length))

    def is_too_long(self, length: int) -> bool:
        """Tells whether a sentence of so many source tokens is longer than what is usual in the training text."""
        return self.is_sentences and self.source_length is not None and length > self.source_length


@dataclass
class Sample:
    """Pairs from all over a stream whose length nobody knows: at most `most` of them, evenly spread."""

    most: int = 4096
    pairs: list[tuple[str, str]] = field(default_factory=list)
    _every: int = 1
    _seen: int = 0

    def add(self, source: str, target: str) -> None:
        """Takes the next pair into account."""
        if self._seen % self._every == 0:
            self.pairs.append((source, target))
            if len(self.pairs) > self.most:
                self.pairs, self._every = self.pairs[::2], 2 * self._every
        self._seen += 1

    def to_json(self) -> list[Any]:
        """Returns the sample as it is, for load()."""
        return [self.pairs, self._every, self._seen]

    def load(self, table: Sequence[Any]) -> None:
        """Goes on from a sample that to_json() returned."""
        self.pairs, self._every, self._seen = [(pair[0], pair[1]) for pair in table[0]], table[1], table[2]


def _usual(lengths: "Counts") -> int:
    """Returns the quantile USUAL of all lengths, rounded up to one that occurs."""
    import numpy as np  # whose import takes a third of the time of a command that needs nothing else of it

    place = math.ceil(USUAL * (int(lengths.sum()) - 1))
    return int(np.searchsorted(np.cumsum(lengths), place, side="right"))


def _script(lines: Sequence[str]) -> str:
    """Returns the script that most of the lines with a known one are in; "" where none has one."""
    found = [script for line in lines if (script := script_of(line))]
    return max(sorted(set(found)), key=found.count, default="")
