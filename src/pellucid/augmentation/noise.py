"""Noise on the sources of synthetic pairs: words dropped, words blanked out, words that change places.

A beam's translations are all alike, and a source without noise teaches little beyond what the model that wrote it
knows (Edunov et al. 2018, "Understanding back-translation at scale", section 3.1, after Lample et al. 2018). Nor does a
model learn much of its own translations of a text, unless it reads that text with noise (He et al. 2020, "Revisiting
self-training for neural sequence generation", section 3).
"""

from dataclasses import dataclass

import numpy as np

from pellucid.config.tables import Settings, check_fields
from pellucid.errors import ConfigError, argument
from pellucid.text.sentences import writes_spaces

BLANK = "<blank>"
"""The symbol that stands for a word that is blanked out."""


@dataclass(frozen=True, kw_only=True)
class Noise(Settings):
    """The noise that is put on a source. Edunov et al. have 0.1, 0.1 and 3; as it stands there is none."""

    drop_words: float = 0.0
    """The probability with which a word is left out."""
    blank_words: float = 0.0
    """The probability with which a word that is left becomes `BLANK`."""
    swap_words: int = 0
    """The most places that a word may end away from its own."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("drop_words", "blank_words"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ConfigError(
                    f"{argument(name, value)} must be at least 0 and below 1", "it is a probability: 0.1 is usual"
                )
        if self.swap_words < 0:
            raise ConfigError(
                f"{argument('swap_words', self.swap_words)} must be at least 0",
                "it is a distance in words: 3 is usual, 0 leaves them in their places",
            )

    def __bool__(self) -> bool:
        return bool(self.drop_words or self.blank_words or self.swap_words)

    def on(self, text: str, generator: np.random.Generator) -> str:
        """Returns a text with noise: its words between spaces, or its characters where it is of a script without.

        A text that has words keeps one of them at least. Word i goes to where i + U(0, k + 1) stands among all, so
        that it ends at most k places from where it was (Lample et al. 2018, section 2.3).
        """
        spaced = writes_spaces(text)
        units = text.split() if spaced else [c for c in text if not c.isspace()]
        if not units:
            return text
        drawn = generator.random((2, len(units)))
        left = [place for place in range(len(units)) if drawn[0, place] >= self.drop_words]
        left = left or [int(generator.integers(len(units)))]
        words = [BLANK if drawn[1, place] < self.blank_words else units[place] for place in left]
        if self.swap_words:
            order = np.argsort(
                np.arange(len(words)) + generator.uniform(0, self.swap_words + 1, len(words)), kind="stable"
            )
            words = [words[place] for place in order]
        return (" " if spaced else "").join(words)
