"""`pellucid score`: the log-probability of each line that is given, a stretch at a time."""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from pellucid.config import DecodeConfig
from pellucid.config.tables import to_table
from pellucid.errors import ConfigError, DataError, shown
from pellucid.process import keep_freed_memory
from pellucid.streams.identity import identity
from pellucid.streams.source import PairSource
from pellucid.streams.streams import Stream, answer_lines, opened
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.translator import Scored, Translator
from pellucid.text.tokenizers import Tokenizers

NORMALIZATIONS = ("none", "mean", "length")
MOST_NAMED = 10
"""Lines without a score that are named; of the rest the number is told."""


def score_stream(
    model: str,
    stream: Stream,
    tgt: str | None,
    *,
    normalize: str,
    as_json: bool,
    device: str,
    dtype: str | None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> None:
    """Writes the score of each target given its source; without `tgt`, of each text by a language model.

    A pair of which a side is longer than the model takes has the score nan, null in JSON, and a warning that names its
    line. What is written when an error comes up stays.

    Args:
        normalize: "none" is the sum over the tokens, end token included; "mean" that over their number; "length" that
            over the number to the power of the model's length penalty, by which its search ranks.

    Raises ConfigError for another `normalize`; DataError where the files cannot be read or differ in length.
    """
    if normalize not in NORMALIZATIONS:
        raise ConfigError(f"`--normalize {shown(normalize)}` is unknown", f"choose one of {', '.join(NORMALIZATIONS)}")
    if stream.input == tgt == "-":
        raise DataError("standard input (`-`) can be only one of the files", "name the others")
    keep_freed_memory()
    unscored = _Unscored()
    settings = {"normalize": normalize, "as_json": as_json}
    nothing = "null" if as_json else ""

    def written(found: Sequence[Scored], place: int, decode: DecodeConfig) -> Iterator[str]:
        unscored.look_at(found, place)
        return (_as_json(one, decode) if as_json else f"{_normalized(one, decode, normalize):.4f}" for one in found)

    if tgt is None:
        with opened(stream) as source:
            language_model = LanguageModel.load(model, device, dtype)

            def answer_text(texts: list[str], place: int) -> Iterator[str]:
                found = [Scored(math.fsum(values), len(values)) for values in language_model.token_scores(texts)]
                return written(found, place, language_model.decode)

            tokenizers = Tokenizers(language_model.tokenizer, language_model.tokenizer)
            settings |= to_table(language_model.decode)
            command = partial(identity, "score", language_model.model, tokenizers, settings)
            answer_lines(stream, source, answer_text, command=command, nothing=("", nothing))
    else:
        with opened(stream) as sources, opened(replace(stream, input=tgt)) as targets:
            translator = Translator.load(model, device, dtype, source_language, target_language)

            def answer_pair(pairs: list[tuple[str, str]], place: int) -> Iterator[str]:
                found = translator.scored([source for source, _ in pairs], [target for _, target in pairs])
                return written(found, place, translator.decode)

            settings |= to_table(translator.decode)
            command = partial(identity, "score", translator.model, translator.tokenizers, settings)
            both = PairSource(sources, targets)
            answer_lines(stream, both, answer_pair, command=command, nothing=(("", ""), nothing))
    unscored.sum_up()


class _Unscored:
    """Names the lines that have no score, as far as they are few."""

    def __init__(self) -> None:
        self.lines = self.without = 0

    def look_at(self, found: Sequence[Scored], place: int) -> None:
        """Takes in the scores of the lines behind `place`."""
        self.lines += len(found)
        for number, scored in enumerate(found, start=place + 1):
            self.without += bool(scored.fault)
            if scored.fault and self.without <= MOST_NAMED:
                print(f"warning: line {number:,} has no score: {scored.fault}", file=sys.stderr)

    def sum_up(self) -> None:
        """Says how many there were where not all are named."""
        if self.without > MOST_NAMED:
            print(
                f"warning: {self.without:,} of {self.lines:,} lines have no score: they are too long", file=sys.stderr
            )


def _normalized(scored: Scored, decode: DecodeConfig, normalize: str) -> float:
    power = {"none": 0.0, "mean": 1.0, "length": decode.length_penalty}[normalize]
    # An empty text without an end token has no tokens, and costs nothing.
    return float(scored.score / max(1, scored.tokens) ** power)


def _as_json(scored: Scored, decode: DecodeConfig) -> str:
    names = {"score": "none", "mean": "mean", "length_normalized": "length"}
    values = {name: _normalized(scored, decode, normalize) for name, normalize in names.items()}
    return json.dumps(
        {name: None if math.isnan(value) else round(value, 5) for name, value in values.items()}
        | {"tokens": scored.tokens}
    )
