"""Splits lines into the pieces of ids that a model translates separately: lengths, limits, warnings."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pellucid.config import DecodeConfig
from pellucid.engines.engine import Engine
from pellucid.errors import DataError
from pellucid.tasks.languages import codes_before_source, find_source_language
from pellucid.tasks.segmentation import split_segments
from pellucid.tasks.task import check_lines
from pellucid.tasks.translation import SegmentedLines
from pellucid.text.sentences import split_sentences
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.training_text import TrainingTextStats


class LongTextWarning(UserWarning):
    """A sentence is longer than the model's training text."""


@dataclass(frozen=True)
class Segmenter:
    """Splits lines into pieces, by the number of tokens that a model's positions allow."""

    engine: Engine
    tokenizers: TokenizerPair
    languages: Mapping[str, int]
    """The codes of a multilingual model, with their ids."""
    text: TrainingTextStats | None
    """The statistics of the training lines; None: unknown, and no line is split into sentences."""

    def segment(self, sources: Sequence[str], decode: DecodeConfig, stacklevel: int = 3) -> SegmentedLines:
        """Returns the lines in segments; an empty line has none. Warns of segments that are too long.

        `stacklevel` is the stack level of warnings.
        """
        limit = max(1, min(decode.max_source_length, self.source_room(decode)))
        text = self.text if decode.segment == "auto" else None
        language = find_source_language(decode, self.tokenizers, self.languages)
        led = codes_before_source(self.tokenizers, self.languages)
        lines = split_segments(check_lines(sources), self.tokenizers.source, limit, text, language, led_by_codes=led)
        for line in lines:
            for segment in line:
                if len(segment.pieces) > 1:
                    warnings.warn(
                        f"a {'sentence' if len(line) > 1 else 'line'} of {segment.length:,} tokens is longer than the "
                        f"model takes ({limit:,}); it is translated in {len(segment.pieces)} pieces",
                        stacklevel=stacklevel,
                    )
        if self.text is not None:
            lengths = [segment.length for line in lines for segment in line if len(segment.pieces) == 1]
            if too_long := [length for length in lengths if self.text.is_too_long(length)]:
                warnings.warn(
                    too_long_text(len(too_long), max(too_long), self.text), LongTextWarning, stacklevel=stacklevel
                )
        found = SegmentedLines(lines, self.tokenizers)
        read = self.engine.read(found.pieces, [text for line in lines for text, _ in found.read_line(line)])
        if read is found.pieces:
            return found
        ids = iter(read)
        return replace(
            found, lines=[[replace(s, pieces=[next(ids) for _ in s.pieces]) for s in line] for line in lines]
        )

    def warn_of_sentences(self, source: str, length: int, decode: DecodeConfig) -> None:
        """Warns if `translate` would split a text into sentences that is read whole here."""
        if decode.segment == "auto" and self.text is not None and self.text.is_unlike(length):
            count = len(split_sentences(source, find_source_language(decode, self.tokenizers, self.languages)))
            if count > 1:
                warnings.warn(
                    f"the text has {count} sentences, which are read here as one line; `translate` translates each "
                    "separately, so pass one sentence to see the same",
                    stacklevel=3,
                )

    def encode_pairs(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[list[list[int]], list[list[int]]]:
        """Returns the ids of sources and targets. Raises DataError if the lists differ in length."""
        src = self.tokenizers.source.encode_lines(check_lines(sources))
        tgt = self.tokenizers.target.encode_lines(check_lines(targets))
        if len(src) != len(tgt):
            raise DataError(f"{len(src)} sources and {len(tgt)} targets: each source needs one target")
        return self.engine.read(src, sources), tgt

    def find_too_long(self, src: Sequence[int], tgt: Sequence[int], decode: DecodeConfig) -> str:
        """Returns a message for a source or target that exceeds the model's positions; empty if both fit."""
        limits = self.source_room(decode), self.target_room(decode)
        fault = " and ".join(
            f"its {side} has {len(ids):,} tokens; the model's limit is {limit:,}"
            for side, ids, limit in zip(("source", "target"), (src, tgt), limits, strict=True)
            if len(ids) > limit
        )
        return fault or self.engine.find_too_long(src, decode)

    def check_lengths(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], decode: DecodeConfig
    ) -> None:
        """Raises DataError for a text that exceeds the model's positions."""
        limits = self.source_room(decode), self.target_room(decode)
        for side, texts, limit in zip(("source", "target"), (sources, targets), limits, strict=True):
            for number, ids in enumerate(texts, start=1):
                if len(ids) > limit:
                    raise DataError(
                        f"{side} {number} has {len(ids):,} tokens; the model's limit is {limit:,}", "shorten the text"
                    )

    def source_room(self, decode: DecodeConfig) -> int:
        """Returns the most tokens of a source that fit into the model's positions."""
        return self.engine.config.max_positions - decode.added

    def target_room(self, decode: DecodeConfig) -> int:
        """Returns the most tokens of a target that fit into the model's positions, without its start token."""
        return self.engine.config.max_positions - 1 - len(decode.target_prefix)

    def limit(self, piece: list[int], config: DecodeConfig) -> int:
        """Returns the most tokens of the translation of a piece."""
        return min(config.limit(len(piece)), self.target_room(config))


def too_long_text(count: int, longest: int, text: TrainingTextStats) -> str:
    """Returns the warning for sentences longer than the usual ones of the training text."""
    return (
        f"{count:,} {'sentence is' if count == 1 else 'sentences are'} longer than nearly all that the model was "
        f"trained on ({longest:,} tokens; 999 of 1,000 lines there have at most {text.source_length:,}): expect a "
        "worse translation"
    )
