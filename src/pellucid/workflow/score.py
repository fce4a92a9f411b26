"""`pellucid score`: the log-probability of each line that is given, a stretch at a time."""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TextIO

from pellucid.config import DecodeConfig
from pellucid.data.corpus import read_lines
from pellucid.errors import ConfigError, DataError
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.translator import Scored, Translator
from pellucid.workflow.process import keep_freed_memory
from pellucid.workflow.streams import stretches, writer

NORMALIZATIONS = ("none", "mean", "length")
MOST_NAMED = 10
"""Lines without a score that are named; of the rest the number is told."""


def score_stream(
    model: str,
    src: str,
    tgt: str | None,
    *,
    normalize: str,
    as_json: bool,
    device: str,
    dtype: str | None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> None:
    """Prints the score of each target given its source; without `tgt`, of each text by a language model.

    A pair of which a side is longer than the model takes has the score nan, null in JSON, and a warning that names its
    line. What is printed when an error comes up stays.

    Args:
        normalize: "none" is the sum over the tokens, end token included; "mean" that over their number; "length" that
            over the number to the power of the model's length penalty, by which its search ranks.

    Raises ConfigError for another `normalize`; DataError where the files cannot be read or differ in length.
    """
    if normalize not in NORMALIZATIONS:
        raise ConfigError(f"`--normalize {normalize}` is unknown", f"choose one of {', '.join(NORMALIZATIONS)}")
    if src == tgt == "-":
        raise DataError("standard input (`-`) can be only one of the files", "name the others")
    keep_freed_memory()
    at_once = "-" in (src, tgt) and sys.stdin.isatty()
    sources = stretches(read_lines(src), at_once)
    if tgt is None:
        language_model = LanguageModel.load(model, device, dtype)
        decode, found = language_model.decode, _of_texts(language_model, sources)
    else:
        translator = Translator.load(model, device, dtype, source_language, target_language)
        decode, found = translator.decode, _of_pairs(translator, sources, src, tgt)
    with writer("-") as out:
        _print(found, out, decode, normalize, as_json)


def _of_texts(model: LanguageModel, stretches: Iterator[list[str]]) -> Iterator[list[Scored]]:
    for texts in stretches:
        yield [Scored(math.fsum(values), len(values)) for values in model.token_scores(texts)]


def _of_pairs(translator: Translator, stretches: Iterator[list[str]], src: str, tgt: str) -> Iterator[list[Scored]]:
    lines, number = iter(read_lines(tgt)), 0
    for sources in stretches:
        targets = list(islice(lines, len(sources)))
        if found := translator.scored(sources[: len(targets)], targets):
            yield found
        number += len(targets)
        if len(targets) < len(sources):
            raise _unequal(src, number + len(sources) - len(targets) + sum(map(len, stretches)), tgt, number)
    if more := sum(1 for _ in lines):
        raise _unequal(src, number, tgt, number + more)


def _unequal(src: str, sources: int, tgt: str, targets: int) -> DataError:
    return DataError(
        f"`{src}` and `{tgt}` must have as many lines as each other, but `{src}` has {sources:,} and `{tgt}` "
        f"{targets:,}",
        "line n of each file must belong to the same sentence",
    )


def _print(found: Iterator[Sequence[Scored]], out: TextIO, decode: DecodeConfig, normalize: str, as_json: bool) -> None:
    number = unscored = 0
    for stretch in found:
        for scored in stretch:
            number += 1
            unscored += bool(scored.fault)
            if scored.fault and unscored <= MOST_NAMED:
                print(f"warning: line {number:,} has no score: {scored.fault}", file=sys.stderr)
            out.write(_as_json(scored, decode) if as_json else f"{_normalized(scored, decode, normalize):.4f}")
            out.write("\n")
        out.flush()
    if unscored > MOST_NAMED:
        print(f"warning: {unscored:,} of {number:,} lines have no score: they are too long", file=sys.stderr)


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
