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
    add_revision,
    flag,
    optional,
)
from pellucid.terminal import log_line


def heads(
    model: Model,
    /,
    *,
    ablate: Annotated[bool, flag("switch off each head in turn, and measure the effect on the sentences")] = False,
    src: Annotated[
        str | None, optional("FILE", "sentences to analyze", "the run's test set, else its validation set")
    ] = None,
    tgt: Annotated[str | None, optional("FILE", "their translations or labels, line by line", "as for --src")] = None,
    metric: Annotated[
        str | None,
        optional("NAME", "with --ablate: loss, bleu or accuracy", "loss, and bleu or accuracy by task"),
        METRICS,
    ] = None,
    sentences: Annotated[
        int, tyro.conf.arg(metavar="N", help="number of sentences to use, spread evenly over the file")
    ] = 200,
    output: Annotated[
        str | None,
        tyro.conf.arg(aliases=["-o"]),
        optional(
            "FILE", ".json, or .html: the model view of the first sentence with the figures", "print the table only"
        ),
    ] = None,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Print statistics of each attention head, as means over sentences: entropy, distance, diagonality, and the weight
    on the previous token and on the sink. With --ablate, print how much worse the model is without each head: the
    change of the loss and of BLEU (or accuracy), with 95 % intervals, the most important heads first.

    example: pellucid heads run
    example: pellucid heads run --ablate --src test.de --tgt test.en -o heads.html
    """
    import sys

    from pellucid.analysis.heads import HeadStudy, ablate_heads, head_statistics, report
    from pellucid.errors import ConfigError
    from pellucid.views.head_page import check_output, write_heads

    if metric is not None and not ablate:
        raise ConfigError(f"`--metric {metric}` requires `--ablate`", "add `--ablate`, or leave --metric out")
    check_output(output)
    subject = HeadStudy.open(
        add_revision(model, revision), src, tgt, sentences, device=device, dtype=dtype, languages=(src_lang, tgt_lang)
    )
    if ablate:
        found = ablate_heads(subject, metric, lambda head: log_line(f"without {head}") if sys.stderr.isatty() else None)
        print(report(found, subject.texts))
        write_heads(output, subject, found)
        return 0
    table, left_out = head_statistics(subject)
    skipped = f"; {left_out:,} that are too long for the model are skipped" if left_out else ""
    print(table.report(subject.texts.origin) + skipped)
    write_heads(output, subject, table)
    return 0
