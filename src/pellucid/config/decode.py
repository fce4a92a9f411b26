"""[decode]: how a trained model searches for its output."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pellucid.config.tables import Settings, check_at_least, check_at_most, check_fields
from pellucid.errors import ConfigError
from pellucid.files.reading import MOST_ID

CEILINGS = {
    "beam_size": 2**10, "n_best": 2**10, "max_length": 2**20, "batch_tokens": 2**24, "max_source_length": 2**20,
    "length_penalty": 16.0, "source_prefix": MOST_ID - 1, "source_suffix": MOST_ID - 1, "target_prefix": MOST_ID - 1,
    "suppress": MOST_ID - 1,
}  # fmt: skip
"""The largest of each: a search keeps `beam_size` times `batch_tokens` rows, whoever wrote the folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeConfig(Settings):
    """How a trained model searches for its output."""

    beam_size: int = 5
    """Hypotheses kept a step; 1: greedy search."""
    length_penalty: float = 1.0
    """Hypotheses rank by log-probability / length ** length_penalty; target_prefix and end count as length."""
    n_best: int = 1
    """Translations given a sentence."""
    max_length: int | None = None
    """Most tokens of a translation; None: twice the source's tokens + 50."""
    batch_tokens: int = 4096
    """Source tokens translated at a time, padding and beams included."""
    max_source_length: int = 256
    """Source tokens of a line; a longer one is translated in pieces."""
    segment: Literal["auto", "off"] = "auto"
    """auto: a line of several sentences is translated sentence by sentence, where the model was trained on single ones
    or on shorter lines; off: as it is."""
    source_prefix: tuple[int, ...] = ()
    """Ids before every source, as the code of its language."""
    source_end: bool = True
    """Whether the end token stands behind every source; of a language model, whether lines end with it."""
    source_suffix: tuple[int, ...] = ()
    """Ids behind every source and its end token."""
    target_prefix: tuple[int, ...] = ()
    """Ids that every output begins with, after the start token; not chosen, so not part of its score."""
    suppress: tuple[int, ...] = ()
    """Ids that are never written."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(self, ("beam_size", "n_best", "batch_tokens", "max_source_length", "max_length"), 1)
        for name in ("source_prefix", "source_suffix", "target_prefix", "suppress"):
            if min(getattr(self, name), default=0) < 0:
                raise ConfigError(f"`{name}` {list(getattr(self, name))} holds ids below 0")
        check_at_most(self, CEILINGS)
        if self.length_penalty < -CEILINGS["length_penalty"]:
            raise ConfigError(
                f"`length_penalty` ({self.length_penalty}) must be at least {-CEILINGS['length_penalty']}"
            )
        if self.n_best > self.beam_size:
            raise ConfigError(
                f"`n_best` ({self.n_best}) cannot exceed `beam_size` ({self.beam_size})",
                f"use a beam of at least {self.n_best}",
            )

    def limit(self, source_length: int) -> int:
        """Returns the most tokens of an output for a source of so many tokens of its own."""
        return self.max_length or 2 * source_length + 50

    @property
    def added(self) -> int:
        """The tokens that every source has beside its own."""
        return len(self.source_prefix) + self.source_end + len(self.source_suffix)

    def whole_source(self, ids: Sequence[int], eos_id: int) -> list[int]:
        """A source's own ids with all that stands around them: what the model reads."""
        return [*self.source_prefix, *ids, *([eos_id] if self.source_end else []), *self.source_suffix]
