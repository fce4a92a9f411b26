"""`pellucid score`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Device, Dtype, Model, SourceLanguage, TargetLanguage, optional


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
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Print the log-probability of each translation given its source, end token included: one number a line. Of a
    language model it is that of each line of --src by itself.

    example: pellucid score run --src test.de --tgt test.en > scores.txt
    """
    from pellucid.errors import ConfigError
    from pellucid.tasks.translator import Translator
    from pellucid.workflow.evaluate import read_columns
    from pellucid.workflow.measure import line_scores, task_in

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
        for log_prob in line_scores(model, src, device=device, dtype=dtype):
            print(f"{log_prob:.4f}")
        return 0
    if tgt is None:
        raise ConfigError("the translations are not given: `--tgt FILE`", "name their file")
    columns = read_columns([src, tgt])
    translator = Translator.load(model, device, dtype, src_lang, tgt_lang)
    for log_prob in translator.score(columns[src], columns[tgt]):
        print(f"{log_prob:.4f}")
    return 0
