"""[decode]: the settings of beam search, and the settings of sampling."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from pellucid.config.tables import SettingsBase, check_at_least, check_at_most, check_fields
from pellucid.errors import ConfigError, DecodingError, format_value
from pellucid.files.reading import MOST_ID

BATCH_TOKENS = 4096
"""The default number of tokens per batch, in training and in decoding."""
MOST_SEED = 2**63 - 1
"""The largest seed that all random number generators accept, and the largest integer of a tensor."""
CEILINGS: dict[str, int | float] = {
    "beam_size": 2**10, "n_best": 2**10, "max_length": 2**20, "batch_tokens": 2**24, "max_source_length": 2**20,
    "length_penalty": 16.0, "source_prefix": MOST_ID - 1, "source_suffix": MOST_ID - 1, "target_prefix": MOST_ID - 1,
    "suppress_tokens": MOST_ID - 1, "end_ids": MOST_ID - 1, "min_length": 2**20, "no_repeat_ngram_size": 2**20,
}  # fmt: skip
"""The largest value of each setting: an untrusted folder could request a search of any size, since it keeps
`beam_size` times `batch_tokens` rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeConfig(SettingsBase):
    """The settings of the search of a trained model."""

    beam_size: int = 5
    """Beam size: hypotheses kept per step; 1 means greedy search, which is the default for language models."""
    length_penalty: float = 1.0
    """Hypotheses are ranked by log-probability / length ** length_penalty; the length includes target_prefix and the
    end token."""
    n_best: int = 1
    """Translations returned per sentence."""
    max_length: int | None = None
    """Maximum number of tokens of a translation; None: twice the number of source tokens + 50."""
    batch_tokens: int = BATCH_TOKENS
    """Source tokens per batch, padding and beams included."""
    max_source_length: int = 256
    """Maximum number of source tokens of a line; a longer line is translated in parts."""
    segment: Literal["auto", "off"] = "auto"
    """auto: a line of several sentences is translated sentence by sentence if the model was trained on single sentences
    or on shorter lines; off: lines are not split."""
    source_prefix: tuple[int, ...] = ()
    """Ids before every source, such as its language code."""
    add_source_eos: bool = True
    """Add the end token after every source; for a language model, after every line."""
    source_suffix: tuple[int, ...] = ()
    """Ids after every source and its end token."""
    target_prefix: tuple[int, ...] = ()
    """Ids at the beginning of every output, after the start token; they are forced, so their probability is not part of
    the score."""
    suppress_tokens: tuple[int, ...] = ()
    """Ids that are never generated."""
    banned: tuple[tuple[int, ...], ...] = ()
    """Sequences of at least two ids that are never generated."""
    end_ids: tuple[int, ...] = ()
    """Further ids that end an output like the model's end token, whose log-probability is then the largest of all end
    ids."""
    min_length: int = 0
    """Minimum number of tokens of an output, without the end token."""
    no_repeat_ngram_size: int = 0
    """An n-gram of this many tokens cannot occur twice in an output, including its prefix and prompt; 0: allowed."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(self, ("beam_size", "n_best", "batch_tokens", "max_source_length", "max_length"), 1)
        check_at_least(self, ("min_length", "no_repeat_ngram_size"), 0)
        for name in ("source_prefix", "source_suffix", "target_prefix", "suppress_tokens", "end_ids"):
            if min(getattr(self, name), default=0) < 0:
                raise ConfigError(f"`{name}` {list(getattr(self, name))} has ids below 0")
        for sequence in self.banned:
            if len(sequence) < 2 or not all(0 <= i < MOST_ID for i in sequence):
                raise ConfigError(
                    f"`banned` has {format_value(list(sequence))}, which must be at least two ids from 0 to "
                    f"{MOST_ID - 1:,}",
                    "`suppress_tokens` takes single ids",
                )
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
        """Returns the maximum number of output tokens for a source of `source_length` tokens, added ids excluded."""
        return self.max_length or 2 * source_length + 50

    @property
    def has_constraints(self) -> bool:
        """Returns True if an output has a minimum length, or may not contain some sequences."""
        return bool(self.min_length or self.no_repeat_ngram_size or self.banned)

    def remove_rules(self) -> Self:
        """Returns a copy without the folder's constraints on outputs: any token may follow any other token, and only
        the model's end token ends an output.
        """
        return replace(self, banned=(), end_ids=(), min_length=0, no_repeat_ngram_size=0)

    @property
    def added(self) -> int:
        """Returns the number of ids that are added to every source."""
        return len(self.source_prefix) + self.add_source_eos + len(self.source_suffix)

    def add_special_ids(self, ids: Sequence[int], eos_id: int) -> list[int]:
        """Returns the ids of a source with the added ids before and after them, as the model reads them."""
        return [*self.source_prefix, *ids, *([eos_id] if self.add_source_eos else []), *self.source_suffix]


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(SettingsBase):
    """The settings of sampling. Filters apply after the temperature: first top-k, then top-p."""

    temperature: float = 1.0
    """Divides the logits: below 1 sharper, above 1 flatter."""
    top_k: int = 0
    """Sample from this many most probable tokens; 0: from all."""
    top_p: float = 1.0
    """Sample from the smallest set of tokens that together have at least this probability."""
    epsilon_cutoff: float = 0.0
    """Sample from the tokens with at least this probability under the model itself, and from the most probable one."""
    seed: int = 1
    """Random seed. The random numbers of a sentence depend on (seed, its index), not on the other sentences."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.temperature <= 0:
            raise DecodingError(f"`temperature` ({self.temperature}) must be above 0", "use greedy search for 0")
        for name in ("top_k", "seed"):
            if not 0 <= getattr(self, name) <= MOST_SEED:
                raise DecodingError(
                    f"`{name}` ({format_value(getattr(self, name))}) must be at least 0 and at most {MOST_SEED:,}"
                )
        if not 0 < self.top_p <= 1:
            raise DecodingError(f"`top_p` ({self.top_p}) must be above 0 and at most 1")
        if not 0 <= self.epsilon_cutoff < 1:
            raise DecodingError(
                f"`epsilon_cutoff` ({self.epsilon_cutoff}) must be at least 0 and below 1", "0.02 is usual"
            )
