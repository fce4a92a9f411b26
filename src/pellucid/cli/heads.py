"""`pellucid heads`."""

from typing import Annotated

import tyro

from pellucid.cli.options import (
    METRICS,
    Device,
    Dtype,
    Model,
    Revision,
    SourceLanguage,
    TargetLanguage,
    at_revision,
    flag,
    optional,
)


def heads(
    model: Model,
    /,
    *,
    ablate: Annotated[bool, flag("switch off each head in turn, and score the sentences again")] = False,
    src: Annotated[str | None, optional("FILE", "the sentences", "the run's test set, else its validation set")] = None,
    tgt: Annotated[str | None, optional("FILE", "their translations or labels, line by line", "as for --src")] = None,
    metric: Annotated[
        str | None,
        optional("NAME", "with --ablate: loss, bleu or accuracy", "loss, and the other that the task has"),
        METRICS,
    ] = None,
    sentences: Annotated[int, tyro.conf.arg(metavar="N", help="how many, spread evenly over them all")] = 200,
    output: Annotated[
        str | None,
        tyro.conf.arg(aliases=["-o"]),
        optional("FILE", ".json, or .html: the model view of the first sentence with the figures", "the table alone"),
    ] = None,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Print what kind of head each one is: entropy, distance, diagonality, and the weight on the previous token and on
    the sink, means over sentences. With --ablate, print what the model loses without each head: the change of the loss
    and of BLEU (or accuracy), with 95 % intervals, those that matter most first.

    example: pellucid heads run
    example: pellucid heads run --ablate --src test.de --tgt test.en -o heads.html
    """
    import sys

    from pellucid.analysis.heads import Subject, ablate_heads, head_statistics, report
    from pellucid.errors import ConfigError
    from pellucid.views.head_page import check_output, write_heads

    if metric is not None and not ablate:
        raise ConfigError(
            f"`--metric {metric}` is of `--ablate`, which is not given", "add `--ablate`, or leave it out"
        )
    check_output(output)
    subject = Subject.open(
        at_revision(model, revision), src, tgt, sentences, device=device, dtype=dtype, languages=(src_lang, tgt_lang)
    )
    if ablate:
        quiet = not sys.stderr.isatty()
        found = ablate_heads(subject, metric, lambda head: quiet or print(f"without {head}", file=sys.stderr))
        print(report(found, subject.texts))
        write_heads(output, subject, found)
        return 0
    table, left_out = head_statistics(subject)
    beside = f"; {left_out:,} that are too long for the model are left out" if left_out else ""
    print(table.report(subject.texts.origin) + beside)
    write_heads(output, subject, table)
    return 0
