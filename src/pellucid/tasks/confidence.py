"""The confidence of a translation: a probability for each word and the line, and quality flags."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pellucid.evaluation.calibration import Calibration, Floats, log_odds
from pellucid.tasks.quality_flags import Flag, find_flags
from pellucid.text.tokenizer import TokenizerBase
from pellucid.tracing.tokens import make_tokens

DIGITS = 4
"""The reported digits of a probability."""
_EVEN = 0.0  # the log-odds in place of a missing token


@dataclass(frozen=True)
class Word:
    """A word, or a punctuation mark, of a translation."""

    text: str
    probability: float
    """The probability that the word is right, 0 to 1; the model's probability without calibration."""
    log_probability: float
    """The sum of its tokens' log-probabilities: that of the whole word, given the text before it."""


@dataclass(frozen=True)
class Confidence:
    """The confidence of a translation."""

    probability: float | None
    """The mean of the words' probabilities: the expected share of right words. None if there are no words."""
    calibrated: bool
    """If True, probabilities are calibrated on held-out text; if False, they are the model's."""
    words: list[Word]
    flags: list[Flag] = field(default_factory=list)
    """Its quality flags."""
    log_probability: float | None = None
    """The mean log-probability per token, end token included; the flag "mismatch" is based on it."""

    def to_json(self) -> dict[str, Any]:
        """Returns probabilities rounded, and each word and flag as a table."""
        return {
            "probability": None if self.probability is None else round(self.probability, DIGITS),
            "calibrated": self.calibrated,
            "words": [{"word": word.text, "probability": round(word.probability, DIGITS)} for word in self.words],
            "flags": [{"flag": flag.name, "evidence": flag.evidence} for flag in self.flags],
        }


@dataclass(frozen=True)
class ForcedDecoding:
    """The source ids and target ids of a piece, with the log-probabilities of the target's tokens and end token."""

    source: Sequence[int]
    target: Sequence[int]
    log_probs: Sequence[float]


def estimate_confidence(
    tokenizer: TokenizerBase,
    calibration: Calibration | None,
    source: str,
    target: str,
    pieces: Sequence[ForcedDecoding],
    *,
    searched: bool = False,
) -> Confidence:
    """Returns the confidence in a target given its source, from the forced decoding of their pieces.

    If `searched`, the search found the target as the most probable one: see find_flags().
    """
    values = [value for piece in pieces for value in piece.log_probs]
    mean = math.fsum(values) / len(values) if values else None
    words, features = compute_word_features(tokenizer, pieces)
    sums = [log_probability for _, log_probability in words]
    probabilities = np.exp(sums) if calibration is None else calibration.probabilities(features)
    found = [Word(text, float(p), s) for (text, s), p in zip(words, probabilities, strict=True)]
    lengths = sum(len(piece.source) for piece in pieces), sum(len(piece.target) for piece in pieces)
    return Confidence(
        math.fsum(word.probability for word in found) / len(found) if found else None,
        calibration is not None,
        found,
        find_flags(source, target, lengths, mean, calibration, searched=searched),
        mean,
    )


def compute_word_features(
    tokenizer: TokenizerBase, pieces: Sequence[ForcedDecoding]
) -> tuple[list[tuple[str, float]], Floats]:
    """Returns each word with the log-probability of its tokens, and the features (N, 4) with the columns FEATURES."""
    words: list[tuple[str, float]] = []
    features: list[tuple[float, ...]] = []
    for piece in pieces:
        values = piece.log_probs
        mean = math.fsum(values) / len(values)
        tokens = make_tokens(tokenizer, piece.target)
        start = 0
        while start < len(tokens):
            end = start + 1
            while end < len(tokens) and tokens[end].word == tokens[start].word is not None:
                end += 1
            text = "".join(token.text_in_word for token in tokens[start:end]).strip()
            if text and not tokens[start].special:
                total = math.fsum(values[start:end])
                before = log_odds(values[start - 1]) if start else _EVEN
                words.append((text, total))
                features.append((log_odds(total), mean, before, log_odds(values[end])))
            start = end
    return words, np.asarray(features, dtype=np.float64).reshape(-1, 4)
