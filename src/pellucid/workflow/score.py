"""`pellucid score`: the log-probability of each line that is given, a stretch at a time."""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from typing import TextIO

from pellucid.config import DecodeConfig
from pellucid.data.corpus import read_lines
from pellucid.errors import ConfigError, DataError
from pellucid.tasks.language_model import LanguageModel
from pellucid.tasks.translator import Scored, Translator
from pellucid.workflow.process import keep_freed_memory
from pellucid.workflow.streams import FIRST_STRETCH, STRETCH, writer

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
    sizes = _sizes(at_once="-" in (src, tgt) and sys.stdin.isatty())
    if tgt is None:
        language_model = LanguageModel.load(model, device, dtype)
        decode, found = language_model.decode, _of_texts(language_model, src, sizes)
    else:
        translator = Translator.load(model, device, dtype, source_language, target_language)
        decode, found = translator.decode, _of_pairs(translator, src, tgt, sizes)
    with writer("-") as out:
        _print(found, out, decode, normalize, as_json)


def _sizes(at_once: bool) -> Iterator[int]:
    """How many lines go together, stretch by stretch; `at_once`: each by itself, for somebody who waits."""
    return repeat(1) if at_once else chain([FIRST_STRETCH], repeat(STRETCH))


def _of_texts(model: LanguageModel, src: str, sizes: Iterator[int]) -> Iterator[list[Scored]]:
    lines = iter(read_lines(src))
    while texts := list(islice(lines, next(sizes))):
        yield [Scored(math.fsum(values), len(values)) for values in model.token_scores(texts)]


def _of_pairs(translator: Translator, src: str, tgt: str, sizes: Iterator[int]) -> Iterator[list[Scored]]:
    sources, targets, number = iter(read_lines(src)), iter(read_lines(tgt)), 0
    for size in sizes:
        src_lines, tgt_lines = list(islice(sources, size)), list(islice(targets, size))
        both = min(len(src_lines), len(tgt_lines))
        if both:
            yield translator.scored(src_lines[:both], tgt_lines[:both])
        if len(src_lines) != len(tgt_lines):
            counts = (
                number + len(some) + sum(1 for _ in rest) for some, rest in ((src_lines, sources), (tgt_lines, targets))
            )
            raise _unequal(src, next(counts), tgt, next(counts))
        if not both:
            return
        number += both


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
