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
    at_revision,
    flag,
    on_engine,
    optional,
    prepare_process,
)

if TYPE_CHECKING:
    from pellucid.tasks.task import Scored

NORMALIZATIONS = ("none", "mean", "length")
MOST_NAMED = 10
"""Lines without a score that are named; of the rest the number is told."""


def score(
    model: Model,
    /,
    *,
    src: Annotated[
        str, tyro.conf.arg(metavar="FILE", help="source sentences, one a line; of a language model its texts")
    ],
    tgt: Annotated[
        str | None, optional("FILE", "their translations, line by line", "none, for a language model")
    ] = None,
    ref: Annotated[str | None, optional("FILE", "the same as --tgt", "none")] = None,
    output: Output = "-",
    on_bad_utf8: OnBadLines = "error",
    fresh: FreshOutput = False,
    normalize: Annotated[
        str,
        optional(
            "WORD",
            "none: the sum over the tokens; mean: that over their number; length: that over their number to the power "
            "of the model's length penalty, by which its search ranks",
            "none",
        ),
    ] = "none",
    json: Annotated[bool, flag("print a JSON object a line: all three, tokens, probabilities, flags")] = False,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    revision: Revision = None,
    ensemble: Members = (),
    engine: Engine = "torch",
    device: Device = "auto",
    dtype: EngineDtype = None,
    threads: Threads = None,
) -> int:
    """Print the log-probability of each translation given its source, end token included: one number a line, as they
    come. Of a language model it is that of each line of --src by itself. A pair too long for the model is `nan`, and a
    warning names its line.

    example: pellucid score run --src test.de --tgt test.en > scores.txt
    example: pellucid score run --src test.de --tgt test.en --normalize mean
    """
    import sys
    from contextlib import ExitStack
    from dataclasses import replace
    from functools import partial

    from pellucid.config.tables import to_table
    from pellucid.errors import ConfigError, DataError, shown
    from pellucid.streams.source import PairSource
    from pellucid.streams.streams import Stream, answering, identity, opened
    from pellucid.tasks.task import task_in
    from pellucid.tasks.translator import Translator, confidence_settings

    model = at_revision(model, revision)
    if tgt is not None and ref is not None:
        raise ConfigError("`--ref` is the same as `--tgt`, and both are given", "leave one out")
    tgt = ref if tgt is None else tgt
    task = task_in(model)
    if task.family == "encoder":
        raise ConfigError(f"`{model}` is {task.noun}, which scores no texts", "use `pellucid classify --json`")
    if task.targets and tgt is None:
        raise ConfigError("the translations are not given: `--tgt FILE`", "name their file")
    translating = {"--tgt": tgt, "--src-lang": src_lang, "--tgt-lang": tgt_lang}
    translating["--engine"] = None if engine == "torch" else engine
    translating["--ensemble"] = ensemble[0] if ensemble else None
    for option, value in translating.items():
        if value is not None and not task.targets:
            noun = task.noun.partition(" ")[2]
            raise ConfigError(f"the {noun} `{model}` scores the texts of --src alone", f"leave {option} out")
    if normalize not in NORMALIZATIONS:
        raise ConfigError(f"`--normalize {shown(normalize)}` is unknown", f"choose one of {', '.join(NORMALIZATIONS)}")
    if src == tgt == "-":
        raise DataError("standard input (`-`) can be only one of the files", "name the others")
    stream = Stream(src, output, on_bad_utf8, fresh)
    prepare_process(threads, engine=engine)
    with ExitStack() as stack:
        source: Any = stack.enter_context(opened(stream))
        scorer: Any
        if tgt is None:
            from pellucid.tasks.language_model import LanguageModel

            scorer = LanguageModel.load(model, device, dtype)
        else:
            source = PairSource(source, stack.enter_context(opened(replace(stream, input=tgt))))
            how = on_engine(engine, threads) | {"ensemble": ensemble}
            scorer = Translator.load(model, device, dtype, src_lang, tgt_lang, **how)
        settings = {"normalize": normalize, "as_json": json, **to_table(scorer.decode)}
        if isinstance(scorer, Translator):
            settings |= confidence_settings(scorer, asked=json)
        nothing = ("" if tgt is None else ("", ""), "null" if json else "")
        command = partial(identity, "score", scorer, settings)
        answers = stack.enter_context(answering(stream, source, command=command, nothing=nothing))
        without = total = 0
        for place, lines in answers:
            if isinstance(scorer, Translator):
                found = scorer.scored([line[0] for line in lines], [line[1] for line in lines], confidence=json)
            else:
                found = scorer.scored(lines)
            for number, one in enumerate(found, start=place + 1):
                without += bool(one.fault)
                if one.fault and without <= MOST_NAMED:
                    print(f"warning: line {number:,} has no score: {one.fault}", file=sys.stderr)
            power = scorer.decode.length_penalty
            answers.write(
                _as_json(one, power) if json else f"{_normalized(one, normalize, power):.4f}" for one in found
            )
            total = place + len(lines)
    if without > MOST_NAMED:
        print(f"warning: {without:,} of {total:,} lines have no score: they are too long", file=sys.stderr)
    return 0


def _normalized(scored: "Scored", normalize: str, length_penalty: float) -> float:
    """Returns a score over the number of its tokens to the power that `normalize` names."""
    power = {"none": 0.0, "mean": 1.0, "length": length_penalty}[normalize]
    # An empty text without an end token has no tokens, and costs nothing.
    return float(scored.score / max(1, scored.tokens) ** power)


def _as_json(scored: "Scored", length_penalty: float) -> str:
    from json import dumps
    from math import isnan

    names = {"score": "none", "mean": "mean", "length_normalized": "length"}
    values = {name: _normalized(scored, normalize, length_penalty) for name, normalize in names.items()}
    table = {name: None if isnan(value) else round(value, 5) for name, value in values.items()}
    sure = {} if scored.confidence is None else scored.confidence.to_json()
    return dumps(table | {"tokens": scored.tokens} | sure, ensure_ascii=False)
