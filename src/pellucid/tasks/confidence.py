"""Says how sure one may be of a translation: a probability for each word and the line, and what is odd about it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pellucid.evaluation.calibration import Calibration, Floats, log_odds
from pellucid.tasks.guards import Flag, flags_of
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.tracing.tokens import tokens_of

DIGITS = 4
"""Digits of a probability that are told."""
_EVEN = 0.0  # the log-odds in place of a token that there is not


@dataclass(frozen=True)
class Word:
    """A word, or a single mark, of a translation."""

    text: str
    probability: float
    """The probability that the word is right, 0 to 1; the model's own probability where it is not calibrated."""
    log_probability: float
    """The sum of its pieces' log-probabilities: that of the whole word, given what stands before it."""


@dataclass(frozen=True)
class Confidence:
    """A statement of how sure one may be of a translation."""

    probability: float | None
    """The mean of the words' probabilities: the share of words that is expected to be right. None of no words."""
    calibrated: bool
    """True: probabilities were fitted on held-out text; False: they are what the model says."""
    words: list[Word]
    flags: list[Flag] = field(default_factory=list)
    """The odd things about it."""
    log_probability: float | None = None
    """The mean log-probability a token, end token included, of which a mismatch is told."""

    def to_json(self) -> dict[str, Any]:
        """Returns probabilities rounded, and each word and flag as a table."""
        return {
            "probability": None if self.probability is None else round(self.probability, DIGITS),
            "calibrated": self.calibrated,
            "words": [{"word": word.text, "probability": round(word.probability, DIGITS)} for word in self.words],
            "flags": [{"flag": flag.name, "evidence": flag.evidence} for flag in self.flags],
        }


@dataclass(frozen=True)
class Forced:
    """A piece that was read and one that was written, as ids, with the log-probability of each token of the second and
    of its end token."""

    source: Sequence[int]
    target: Sequence[int]
    log_probs: Sequence[float]


def assess(
    tokenizer: CompleteTokenizer, calibration: Calibration | None, source: str, target: str, pieces: Sequence[Forced]
) -> Confidence:
    """Returns how sure one may be of a target given its source, which were read in these pieces."""
    values = [value for piece in pieces for value in piece.log_probs]
    mean = math.fsum(values) / len(values) if values else None
    words, features = words_of(tokenizer, pieces)
    sums = [log_probability for _, log_probability in words]
    probabilities = np.exp(sums) if calibration is None else calibration.probabilities(features)
    found = [Word(text, float(p), s) for (text, s), p in zip(words, probabilities, strict=True)]
    lengths = sum(len(piece.source) for piece in pieces), sum(len(piece.target) for piece in pieces)
    return Confidence(
        math.fsum(word.probability for word in found) / len(found) if found else None,
        calibration is not None,
        found,
        flags_of(source, target, lengths, mean, calibration),
        mean,
    )


def words_of(tokenizer: CompleteTokenizer, pieces: Sequence[Forced]) -> tuple[list[tuple[str, float]], Floats]:
    """Returns each word with the log-probability of all its pieces, and its features (N, 4), as FEATURES names them."""
    words: list[tuple[str, float]] = []
    features: list[tuple[float, ...]] = []
    for piece in pieces:
        values = piece.log_probs
        mean = math.fsum(values) / len(values)
        tokens = tokens_of(tokenizer, piece.target)
        start = 0
        while start < len(tokens):
            end = start + 1
            while end < len(tokens) and tokens[end].word == tokens[start].word is not None:
                end += 1
            text = "".join(token.written for token in tokens[start:end]).strip()
            if text and not tokens[start].special:
                total = math.fsum(values[start:end])
                before = log_odds(values[start - 1]) if start else _EVEN
                words.append((text, total))
                features.append((log_odds(total), mean, before, log_odds(values[end])))
            start = end
    return words, np.asarray(features, dtype=np.float64).reshape(-1, 4)
