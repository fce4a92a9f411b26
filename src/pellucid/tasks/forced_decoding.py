"""Forced decoding of translations: the log-probabilities of their tokens, and the confidence computed from them."""

from collections.abc import Sequence
from dataclasses import replace

from pellucid.config import DecodeConfig
from pellucid.engines.engine import Engine
from pellucid.evaluation.calibration import Calibration
from pellucid.tasks.confidence import ForcedDecoding, estimate_confidence
from pellucid.tasks.translation import Translation
from pellucid.text.tokenizer import TokenizerBase


def force(engine: Engine, translations: Sequence[Translation], decode: DecodeConfig) -> list[list[ForcedDecoding]]:
    """Returns the pieces of each translation with their log-probabilities, by one pass over all of them."""
    pieces = [[piece for sentence in one.sentences for piece in sentence.pieces] for one in translations]
    flat = [piece for of_line in pieces for piece in of_line]
    values = iter(engine.log_probs([source for source, _ in flat], [target for _, target in flat], decode))
    return [[ForcedDecoding(source, target, next(values)) for source, target in of_line] for of_line in pieces]


def add_confidence(
    translations: Sequence[Translation],
    sources: Sequence[str],
    forced: Sequence[Sequence[ForcedDecoding]],
    tokenizer: TokenizerBase,
    calibration: Calibration | None,
    *,
    searched: bool,
) -> list[Translation]:
    """Returns translations with their confidence; arguments as in `estimate_confidence`, one each per translation."""
    return [
        replace(
            one, confidence=estimate_confidence(tokenizer, calibration, source, one.text, pieces, searched=searched)
        )
        for one, source, pieces in zip(translations, sources, forced, strict=True)
    ]
