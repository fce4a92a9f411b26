"""`pellucid score`."""

from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pellucid.cli.options import (
    Device,
    Engine,
    EngineDtype,
    FreshOutput,
    Members,
    Model,
    OnBadLines,
    Output,
    Revision,
    SourceLanguage,
    TargetLanguage,
    Threads,
    add_revision,
    flag,
    make_engine_arguments,
    optional,
    prepare_process,
)
from pellucid.terminal import log_line

if TYPE_CHECKING:
    from pellucid.tasks.task import SequenceScore

NORMALIZATIONS = ("none", "mean", "length")
MOST_NAMED = 10
"""The maximum number of lines without a score that are named; of the others only the number is reported."""


def score(
    model: Model,
    /,
    *,
    src: Annotated[
        str, tyro.conf.arg(metavar="FILE", help="source sentences, one per line; for a language model the texts")
    ],
    tgt: Annotated[
        str | None, optional("FILE", "their translations, line by line", "none, for a language model")
    ] = None,
    ref: Annotated[str | None, optional("FILE", "the same as --tgt", "none")] = None,
    output: Output = "-",
    on_bad_utf8: OnBadLines = "error",
    fresh: FreshOutput = False,
    length_normalize: Annotated[
        str,
        optional(
            "WORD",
            "none: sum of the log-probabilities of the tokens; mean: sum divided by their number; length: sum divided "
            "by their number to the power of the model's length penalty, as beam search ranks",
            "none",
        ),
    ] = "none",
    json: Annotated[
        bool, flag("print a JSON object per line: all three scores, tokens, probabilities, quality flags")
    ] = False,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    revision: Revision = None,
    ensemble: Members = (),
    engine: Engine = "auto",
    device: Device = "auto",
    dtype: EngineDtype = None,
    threads: Threads = None,
) -> int:
    """Print the log-probability of each translation given its source, end token included, one number per line in the
    order of the input. With a language model, print the log-probability of each line of --src. A pair that is too long
    for the model gives `nan`, and a warning names its line.

    example: pellucid score run --src test.de --tgt test.en > scores.txt
    example: pellucid score run --src test.de --tgt test.en --length-normalize mean
    """
    from contextlib import ExitStack
    from dataclasses import replace
    from functools import partial

    from pellucid.config.tables import to_table
    from pellucid.errors import ConfigError, DataError, format_value
    from pellucid.streams.source import PairSource
    from pellucid.streams.streams import LineStream, fingerprint_request, open_input, open_output_stream
    from pellucid.tasks.task import detect_task
    from pellucid.tasks.translator import Translator, confidence_settings

    model = add_revision(model, revision)
    if tgt is not None and ref is not None:
        raise ConfigError("`--ref` and `--tgt` are the same option, and both are given", "leave one out")
    tgt = ref if tgt is None else tgt
    task = detect_task(model)
    if task.family == "encoder":
        raise ConfigError(f"`{model}` is {task.noun}, which cannot score texts", "use `pellucid classify --json`")
    if task.targets and tgt is None:
        raise ConfigError("the translations are missing: `--tgt FILE`", "name the file of translations")
    translating = {"--tgt": tgt, "--src-lang": src_lang, "--tgt-lang": tgt_lang}
    translating["--engine"] = None if engine == "auto" else engine
    translating["--ensemble"] = ensemble[0] if ensemble else None
    for option, value in translating.items():
        if value is not None and not task.targets:
            noun = task.noun.partition(" ")[2]
            raise ConfigError(
                f"`{option}` has no effect on the {noun} `{model}`, which scores the texts of --src",
                f"leave {option} out",
            )
    if length_normalize not in NORMALIZATIONS:
        raise ConfigError(
            f"`--length-normalize {format_value(length_normalize)}` is unknown",
            f"choose one of {', '.join(NORMALIZATIONS)}",
        )
    if src == tgt == "-":
        raise DataError("standard input (`-`) can be only one of --src and --tgt", "name a file for the other")
    stream = LineStream(src, output, on_bad_utf8, fresh)
    prepare_process(threads, engine=engine)
    with ExitStack() as stack:
        source: Any = stack.enter_context(open_input(stream))
        scorer: Any
        if tgt is None:
            from pellucid.tasks.language_model import LanguageModel

            scorer = LanguageModel.load(model, device, dtype)
        else:
            source = PairSource(source, stack.enter_context(open_input(replace(stream, input=tgt))))
            how = make_engine_arguments(engine, threads) | {"ensemble": ensemble}
            scorer = Translator.load(model, device, dtype, src_lang, tgt_lang, **how)
        settings = {"length_normalize": length_normalize, "as_json": json, **to_table(scorer.decode)}
        if isinstance(scorer, Translator):
            settings |= confidence_settings(scorer, asked=json)
        nothing = ("" if tgt is None else ("", ""), "null" if json else "")
        command = partial(fingerprint_request, "score", scorer, settings)
        answers = stack.enter_context(open_output_stream(stream, source, command=command, nothing=nothing))
        without = total = 0
        for place, lines in answers:
            if isinstance(scorer, Translator):
                found = scorer.score_sequences(
                    [line[0] for line in lines], [line[1] for line in lines], confidence=json
                )
            else:
                found = scorer.score_sequences(lines)
            for number, one in enumerate(found, start=place + 1):
                without += bool(one.fault)
                if one.fault and without <= MOST_NAMED:
                    log_line(f"warning: line {number:,} has no score: {one.fault}")
            power = scorer.decode.length_penalty
            answers.write(
                _format_json(one, power) if json else f"{_normalize(one, length_normalize, power):.4f}" for one in found
            )
            total = place + len(lines)
    if without > MOST_NAMED:
        log_line(f"warning: {without:,} of {total:,} lines have no score: they are too long")
    return 0


def _normalize(scored: "SequenceScore", normalize: str, length_penalty: float) -> float:
    """Returns a score divided by the number of tokens to the power that `normalize` selects."""
    power = {"none": 0.0, "mean": 1.0, "length": length_penalty}[normalize]
    # An empty text without an end token has no tokens and the score 0.
    return float(scored.score / max(1, scored.tokens) ** power)


def _format_json(scored: "SequenceScore", length_penalty: float) -> str:
    from json import dumps
    from math import isnan

    names = {"score": "none", "mean": "mean", "length_normalized": "length"}
    values = {name: _normalize(scored, normalize, length_penalty) for name, normalize in names.items()}
    table = {name: None if isnan(value) else round(value, 5) for name, value in values.items()}
    sure = {} if scored.confidence is None else scored.confidence.to_json()
    return dumps(table | {"tokens": scored.tokens} | sure, ensure_ascii=False)
