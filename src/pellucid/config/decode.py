"""[decode]: the settings of a trained model's search for its output, and those by which outputs are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pellucid.config.tables import Settings, check_at_least, check_at_most, check_fields
from pellucid.errors import ConfigError, DecodingError, shown
from pellucid.files.reading import MOST_ID

BATCH_TOKENS = 4096
"""The tokens of a batch, in training as in decoding, where nobody says otherwise."""
MOST_SEED = 2**63 - 1
"""The largest seed that every generator of random numbers takes, and the largest count that a tensor holds."""
CEILINGS: dict[str, int | float] = {
    "beam_size": 2**10, "n_best": 2**10, "max_length": 2**20, "batch_tokens": 2**24, "max_source_length": 2**20,
    "length_penalty": 16.0, "source_prefix": MOST_ID - 1, "source_suffix": MOST_ID - 1, "target_prefix": MOST_ID - 1,
    "suppress": MOST_ID - 1,
}  # fmt: skip
"""The largest of each: a search keeps `beam_size` times `batch_tokens` rows, whoever wrote the folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeConfig(Settings):
    """The settings of a trained model's search for its output."""

    beam_size: int = 5
    """Hypotheses kept a step; 1: greedy search. A language model keeps one unless its caller says otherwise."""
    length_penalty: float = 1.0
    """Hypotheses rank by log-probability / length ** length_penalty; target_prefix and end count as length."""
    n_best: int = 1
    """Translations given a sentence."""
    max_length: int | None = None
    """Most tokens of a translation; None: twice the source's tokens + 50."""
    batch_tokens: int = BATCH_TOKENS
    """Source tokens translated at a time, padding and beams included."""
    max_source_length: int = 256
    """Source tokens of a line; a longer one is translated in pieces."""
    segment: Literal["auto", "off"] = "auto"
    """auto: a line of several sentences is translated sentence by sentence, where the model was trained on single ones
    or on shorter lines; off: as it is."""
    source_prefix: tuple[int, ...] = ()
    """Ids before every source, as the code of its language."""
    source_end: bool = True
    """The end token stands behind every source; with a language model, behind every line."""
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
        """Returns the tokens that every source has beside its own."""
        return len(self.source_prefix) + self.source_end + len(self.source_suffix)

    def whole_source(self, ids: Sequence[int], eos_id: int) -> list[int]:
        """Returns a source's own ids with all that stands around them: what the model reads."""
        return [*self.source_prefix, *ids, *([eos_id] if self.source_end else []), *self.source_suffix]


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(Settings):
    """The settings that an output is drawn by. Filters apply after the temperature: first top-k, then top-p."""

    temperature: float = 1.0
    """Divides the logits: below 1 sharper, above 1 flatter."""
    top_k: int = 0
    """Draw from so many most probable tokens; 0: from all."""
    top_p: float = 1.0
    """Draw from the fewest tokens that together have this probability."""
    epsilon: float = 0.0
    """Draw from the tokens that the model itself gives this probability or more, and from the most probable one."""
    seed: int = 1
    """Each sentence has random numbers of its own, from (seed, its place), whatever stands beside it."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.temperature <= 0:
            raise DecodingError(f"`temperature` ({self.temperature}) must be above 0", "use greedy search for 0")
        for name in ("top_k", "seed"):
            if not 0 <= getattr(self, name) <= MOST_SEED:
                raise DecodingError(
                    f"`{name}` ({shown(getattr(self, name))}) must be at least 0 and at most {MOST_SEED:,}"
                )
        if not 0 < self.top_p <= 1:
            raise DecodingError(f"`top_p` ({self.top_p}) must be above 0 and at most 1")
        if not 0 <= self.epsilon < 1:
            raise DecodingError(f"`epsilon` ({self.epsilon}) must be at least 0 and below 1", "0.02 is usual")
