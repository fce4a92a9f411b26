"""Fits the calibration of a translator on held-out text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError
from pellucid.evaluation.calibration import (
    UNUSUAL,
    Calibration,
    Floats,
    calibration_error,
    cross_fitted,
    fit_coefficients,
    words_right,
)
from pellucid.tasks.confidence import compute_word_features
from pellucid.tasks.forced_decoding import force
from pellucid.tasks.quality_flags import find_changed_numbers, has_numbers, length_ratio, measure_copying
from pellucid.tasks.translation import Translation
from pellucid.tasks.translator import Translator
from pellucid.text.words import tokenize_words


@dataclass(frozen=True)
class LabelledWords:
    """The words of many translations, each labelled right or wrong by a reference."""

    features: Floats
    """(N, 4), with the columns FEATURES."""
    probabilities: Floats
    """The model's own probability of each word."""
    right: npt.NDArray[np.bool_]
    lines: npt.NDArray[np.int64]
    """The number of each word's line."""


def label_words(
    translator: Translator, translations: Sequence[Translation], references: Sequence[str]
) -> LabelledWords:
    """Returns the words of translations; a word is right if the line's reference has it at the same position."""
    features, own, right, lines = [], [], [], []
    forced = force(translator.engine, translations, translator.configure())
    for number, (pieces, reference) in enumerate(zip(forced, references, strict=True)):
        words, of_line = compute_word_features(translator.tokenizers.target, pieces)
        features.append(of_line)
        own += [math.exp(log_probability) for _, log_probability in words]
        right += words_right([text for text, _ in words], tokenize_words(reference))
        lines += [number] * len(words)
    table = np.concatenate(features) if features else np.empty((0, 4))
    return LabelledWords(table, np.array(own), np.array(right, dtype=np.bool_), np.array(lines, dtype=np.int64))


def calibrate(translator: Translator, sources: Sequence[str], references: Sequence[str], weights: str) -> Calibration:
    """Translates held-out text, and returns the calibration of the probabilities, with the usual values for flags.

    A word of a translation is right if the reference has it at the same position. `weights` is the result of
    `hash_weights`. Raises DataError if the lists differ in length, or are too short.
    """
    if len(sources) != len(references):
        raise DataError(f"{len(sources)} sources and {len(references)} references: each source needs one reference")
    decode, segmenter = translator.configure(), translator.segmenter
    labelled = label_words(translator, translator.translate(sources), references)
    coefficients = fit_coefficients(labelled.features, labelled.right)
    pairs = [pair for pair in zip(sources, references, strict=True) if all(text.strip() for text in pair)]
    src, tgt = segmenter.encode_pairs([s for s, _ in pairs], [t for _, t in pairs])
    fitting = [
        i for i in range(len(pairs)) if src[i] and tgt[i] and not segmenter.find_too_long(src[i], tgt[i], decode)
    ]
    values = translator.engine.log_probs([src[i] for i in fitting], [tgt[i] for i in fitting], decode)
    ratios = [length_ratio(len(src[i]), len(tgt[i])) for i in fitting]
    numbered = [pair for pair in pairs if any(map(has_numbers, pair))]
    kept = [not any(find_changed_numbers(*pair)) for pair in numbered]
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
        copied=float(np.quantile([measure_copying(*pair)[0] for pair in pairs], 1 - UNUSUAL)),
        numbers_kept=sum(kept) / len(kept) if kept else 1.0,
    )
