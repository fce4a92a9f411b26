"""Noise on the sources of synthetic pairs: dropped, blanked and swapped words.

The translations of a beam are similar, and a source without noise adds little to the knowledge of the model that wrote
it (Edunov et al. 2018, "Understanding back-translation at scale", section 3.1, after Lample et al. 2018). Self-training
on a model's own translations also needs noise on the source (He et al. 2020, "Revisiting self-training for neural
sequence generation", section 3).
"""

from dataclasses import dataclass

import numpy as np

from pellucid.config.tables import SettingsBase, check_fields
from pellucid.errors import ConfigError, format_argument
from pellucid.text.sentences import writes_spaces

BLANK = "<blank>"
"""The symbol that replaces a blanked word."""


@dataclass(frozen=True, kw_only=True)
class Noise(SettingsBase):
    """The noise on a source. Edunov et al. use 0.1, 0.1 and 3; the defaults add no noise."""

    drop_words: float = 0.0
    """The probability that a word is dropped."""
    blank_words: float = 0.0
    """The probability that a remaining word is replaced by `BLANK`."""
    swap_words: int = 0
    """The largest distance, in positions, that a word may move."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("drop_words", "blank_words"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ConfigError(
                    f"{format_argument(name, value)} must be at least 0 and below 1",
                    "use a probability; 0.1 is usual",
                )
        if self.swap_words < 0:
            raise ConfigError(
                f"{format_argument('swap_words', self.swap_words)} must be at least 0",
                "use a distance in words: 3 is usual, 0 keeps the order",
            )

    def __bool__(self) -> bool:
        return bool(self.drop_words or self.blank_words or self.swap_words)

    def apply(self, text: str, generator: np.random.Generator) -> str:
        """Returns a text with noise on its words, or on its characters if its script has no spaces.

        At least one word of a nonempty text remains. Words are sorted by i + U(0, k + 1), so that word i moves at most
        k positions (Lample et al. 2018, section 2.3).
        """
        spaced = writes_spaces(text)
        units = text.split() if spaced else [c for c in text if not c.isspace()]
        if not units:
            return text
        sampled = generator.random((2, len(units)))
        left = [place for place in range(len(units)) if sampled[0, place] >= self.drop_words]
        left = left or [int(generator.integers(len(units)))]
        words = [BLANK if sampled[1, place] < self.blank_words else units[place] for place in left]
        if self.swap_words:
            order = np.argsort(
                np.arange(len(words)) + generator.uniform(0, self.swap_words + 1, len(words)), kind="stable"
            )
            words = [words[place] for place in order]
        return (" " if spaced else "").join(words)
