"""`pellucid score`."""

from typing import Annotated

import tyro

from pellucid.cli.options import (
    Device,
    Dtype,
    FreshOutput,
    Model,
    OnBadLines,
    Output,
    Revision,
    SourceLanguage,
    TargetLanguage,
    at_revision,
    flag,
    optional,
)


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
    json: Annotated[bool, flag("print a JSON object a line, with all three and the tokens")] = False,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Print the log-probability of each translation given its source, end token included: one number a line, as they
    come. Of a language model it is that of each line of --src by itself. A pair too long for the model is `nan`, and a
    warning names its line.

    example: pellucid score run --src test.de --tgt test.en > scores.txt
    example: pellucid score run --src test.de --tgt test.en --normalize mean
    """
    from pellucid.errors import ConfigError
    from pellucid.evaluation.measure import task_in
    from pellucid.streams.score import score_stream
    from pellucid.streams.streams import Stream

    model = at_revision(model, revision)

    if tgt is not None and ref is not None:
        raise ConfigError("`--ref` is the same as `--tgt`, and both are given", "leave one out")
    tgt = ref if tgt is None else tgt
    task = task_in(model)
    if task in ("classify", "encode"):
        kind = "a classifier" if task == "classify" else "an encoder"
        raise ConfigError(f"`{model}` is {kind}, which scores no texts", "use `pellucid classify --json`")
    if task == "generate":
        for option, value in (("--tgt", tgt), ("--src-lang", src_lang), ("--tgt-lang", tgt_lang)):
            if value is not None:
                raise ConfigError(
                    f"the language model `{model}` scores the texts of --src alone", f"leave {option} out"
                )
    elif tgt is None:
        raise ConfigError("the translations are not given: `--tgt FILE`", "name their file")
    score_stream(
        model, Stream(src, output, on_bad_utf8, fresh), tgt, normalize=normalize, as_json=json, device=device,
        dtype=dtype, source_language=src_lang, target_language=tgt_lang,
    )  # fmt: skip
    return 0
