"""Statistics of the lines that a translator was trained on: lengths, scripts and sentences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from pellucid.config.tables import check_at_least, check_fields
from pellucid.errors import ConfigError
from pellucid.text.sentences import detect_main_script, ends_as_sentence, split_sentences

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Counts = npt.NDArray[np.int64]
    """The number of lines of each length, starting at 0."""

USUAL = 0.999
"""The share of the lines that do not exceed the usual length."""
MOSTLY = 0.5
"""The share of the lines that must end as sentences do for the lines to count as sentences."""
FEW = 0.1
"""The share of lines with several sentences below which a model has hardly seen such lines."""
ONE_SCRIPT = 0.95
"""The share of the lines in one script from which on the text is in this script; below, it is in several."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingTextStats:
    """Statistics of the lines that a translator was trained on; None if unknown."""

    source_length: int | None = None
    """Tokens that 999 of 1,000 source lines do not exceed."""
    source_longest: int | None = None
    """Tokens of the longest source line."""
    target_length: int | None = None
    target_longest: int | None = None
    source_script: str = ""
    """The script of nearly all source lines, such as Latin or Hangul; empty if there are several."""
    target_script: str = ""
    sentence_ends: float | None = None
    """The share of the source lines that end as sentences do."""
    several_sentences: float | None = None
    """The share of the source lines that contain more than one sentence."""
    pairs: tuple[str, ...] = ()
    """The language pairs that the model was trained on, such as "de-en"; empty if they are unknown."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(self, ("source_length", "source_longest", "target_length", "target_longest"), 0)
        for name in ("sentence_ends", "several_sentences"):
            if not 0 <= (getattr(self, name) or 0) <= 1:
                raise ConfigError(f"`{name}` ({getattr(self, name)}) must be a share of the lines, from 0 to 1")

    @classmethod
    def from_lengths(cls, source_lengths: "Counts", target_lengths: "Counts", sample: "Sample") -> Self:
        """Returns the statistics from the lengths of all lines and a sample of their texts.

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
            several_sentences=round(sum(len(split_sentences(line)) > 1 for line in sources) / len(sources), 4),
        )

    @property
    def is_known(self) -> bool:
        """Returns True if the lines were counted, as in every training; a model of another library has no counts."""
        return self.source_length is not None

    @property
    def is_sentences(self) -> bool:
        """Returns True if the lines were sentences, not dates, names and the like."""
        return self.sentence_ends is not None and self.sentence_ends >= MOSTLY

    def is_unlike(self, length: int) -> bool:
        """Returns True if a line of several sentences, `length` tokens in all, is unlike the training text."""
        return self.is_sentences and ((self.several_sentences or 0.0) < FEW or self.is_too_long(length))

    def is_too_long(self, length: int) -> bool:
        """Returns True if a sentence of `length` source tokens exceeds the usual length in the training text."""
        return self.is_sentences and self.source_length is not None and length > self.source_length


@dataclass
class Sample:
    """An evenly spaced sample of at most `most` pairs from a stream of unknown length."""

    most: int = 4096
    pairs: list[tuple[str, str]] = field(default_factory=list)
    _every: int = 1
    _seen: int = 0

    def add(self, source: str, target: str) -> None:
        """Adds the next pair of the stream."""
        if self._seen % self._every == 0:
            self.pairs.append((source, target))
            if len(self.pairs) > self.most:
                self.pairs, self._every = self.pairs[::2], 2 * self._every
        self._seen += 1

    def to_json(self) -> list[Any]:
        """Returns the state of the sample, for load()."""
        return [self.pairs, self._every, self._seen]

    def load(self, table: Sequence[Any]) -> None:
        """Restores the state that to_json() returned."""
        self.pairs, self._every, self._seen = [(pair[0], pair[1]) for pair in table[0]], table[1], table[2]


def _usual(lengths: "Counts") -> int:
    """Returns the quantile USUAL of all lengths, rounded up to a length that occurs."""
    import numpy as np  # its import takes a third of the time of a command that does not need it otherwise

    place = math.ceil(USUAL * (int(lengths.sum()) - 1))
    return int(np.searchsorted(np.cumsum(lengths), place, side="right"))


def _script(lines: Sequence[str]) -> str:
    """Returns the script of ONE_SCRIPT of the lines with a known script, or "" if there is none."""
    found = [script for line in lines if (script := detect_main_script(line))]
    most = max(sorted(set(found)), key=found.count, default="")
    return most if found.count(most) >= ONE_SCRIPT * len(found) else ""
