"""How sure one may be of a translation: a probability for each word and for the line, and what is odd about it."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pellucid.config import DecodeConfig
from pellucid.errors import DataError
from pellucid.evaluation.calibration import (
    UNUSUAL,
    Calibration,
    Floats,
    calibration_error,
    cross_fitted,
    fit_coefficients,
    log_odds,
    words_right,
)
from pellucid.tasks.guards import Flag, changed_numbers, copied, flags_of, has_numbers, length_ratio
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.text.words import cut_words
from pellucid.tracing.tokens import tokens_of

if TYPE_CHECKING:
    from pellucid.tasks.translator import Translation, Translator

DIGITS = 4
"""Digits of a probability that are told."""
_EVEN = 0.0  # the log-odds in place of a token that there is not


@dataclass(frozen=True)
class Word:
    """A word, or a single mark, of a translation."""

    text: str
    probability: float
    """How probable it is that the word is right, 0 to 1; the model's own probability where it is not calibrated."""
    log_probability: float
    """The sum of its pieces' log-probabilities: that of the whole word, given what stands before it."""


@dataclass(frozen=True)
class Confidence:
    """How sure one may be of a translation."""

    probability: float | None
    """The mean of the words' probabilities: the share of words that is expected to be right. None of no words."""
    calibrated: bool
    """Whether probabilities were fitted on held-out text; else they are what the model says."""
    words: list[Word]
    flags: list[Flag] = field(default_factory=list)
    """What is odd about it."""
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


def with_confidence(
    translator: "Translator", sources: Sequence[str], translations: "Sequence[Translation]", decode: DecodeConfig
) -> "list[Translation]":
    """Returns translations with how sure one may be of them, by one pass over what the search wrote."""
    forced = _forced(translator, translations, decode)
    target, calibration = translator.tokenizers.target, translator.calibration
    return [
        replace(translation, confidence=assess(target, calibration, source, translation.text, pieces))
        for source, translation, pieces in zip(sources, translations, forced, strict=True)
    ]


def _forced(
    translator: "Translator", translations: "Sequence[Translation]", decode: DecodeConfig
) -> list[list[Forced]]:
    """Returns the pieces of each translation."""
    pieces = [[piece for sentence in t.sentences for piece in sentence.pieces] for t in translations]
    flat = [piece for of_line in pieces for piece in of_line]
    values = iter(translator._log_probs([source for source, _ in flat], [target for _, target in flat], decode))
    return [[Forced(source, target, next(values)) for source, target in of_line] for of_line in pieces]


@dataclass(frozen=True)
class LabelledWords:
    """The words of many translations, each of which is right or wrong by a reference."""

    features: Floats
    """(N, 4), as FEATURES names them."""
    probabilities: Floats
    """The model's own probability of each word."""
    right: npt.NDArray[np.bool_]
    lines: npt.NDArray[np.int64]
    """The number of each word's line."""


def label_words(
    translator: "Translator", translations: "Sequence[Translation]", references: Sequence[str]
) -> LabelledWords:
    """Returns the words of translations; a word is right where the line's reference has it at its place."""
    features, own, right, lines = [], [], [], []
    forced = _forced(translator, translations, translator._config())
    for number, (pieces, reference) in enumerate(zip(forced, references, strict=True)):
        words, of_line = words_of(translator.tokenizers.target, pieces)
        features.append(of_line)
        own += [math.exp(log_probability) for _, log_probability in words]
        right += words_right([text for text, _ in words], cut_words(reference))
        lines += [number] * len(words)
    table = np.concatenate(features) if features else np.empty((0, 4))
    return LabelledWords(table, np.array(own), np.array(right, dtype=np.bool_), np.array(lines, dtype=np.int64))


def calibrate(translator: "Translator", sources: Sequence[str], references: Sequence[str], weights: str) -> Calibration:
    """Translates held-out text, and returns what it says of the model's probabilities and of what is usual.

    A word of a translation is right where the reference has it at its place. `weights` is what `weights_of` returns.
    Raises DataError where the lists differ in length, or hold too little.
    """
    if len(sources) != len(references):
        raise DataError(f"{len(sources)} sources and {len(references)} references: each source needs one reference")
    decode = translator._config()
    labelled = label_words(translator, translator.translate(sources), references)
    coefficients = fit_coefficients(labelled.features, labelled.right)
    pairs = [pair for pair in zip(sources, references, strict=True) if all(text.strip() for text in pair)]
    src, tgt = translator._encoded_pairs([s for s, _ in pairs], [t for _, t in pairs])
    fitting = [i for i in range(len(pairs)) if not translator._too_long(src[i], tgt[i], decode)]
    values = translator._log_probs([src[i] for i in fitting], [tgt[i] for i in fitting], decode)
    ratios = [length_ratio(len(src[i]), len(tgt[i])) for i in fitting]
    numbered = [pair for pair in pairs if any(map(has_numbers, pair))]
    kept = [not any(changed_numbers(*pair)) for pair in numbered]
    left_out = cross_fitted(labelled.features, labelled.right, labelled.lines)
    return Calibration(
        weights=weights,
        coefficients=coefficients,
        lines=len(pairs),
        words=len(labelled.right),
        right=float(labelled.right.mean()),
        error=calibration_error(left_out, labelled.right),
        error_before=calibration_error(labelled.probabilities, labelled.right),
        log_probability=float(np.quantile([math.fsum(v) / len(v) for v in values], UNUSUAL)),
        length_ratio=(float(np.quantile(ratios, UNUSUAL)), float(np.quantile(ratios, 1 - UNUSUAL))),
        copied=float(np.quantile([copied(*pair)[0] for pair in pairs], 1 - UNUSUAL)),
        numbers_kept=sum(kept) / len(kept) if kept else 1.0,
    )


def confidence_settings(translator: "Translator", *, asked: bool) -> dict[str, Any]:
    """Returns what decides the confidences of a stream: an output that was stopped goes on under the same alone."""
    calibration = translator.calibration
    return {"confidence": None if calibration is None else asdict(calibration)} if asked else {}
