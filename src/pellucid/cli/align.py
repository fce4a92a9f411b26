"""`pellucid align`."""

from typing import Annotated

import tyro

from pellucid.cli.options import (
    Choices,
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


def align(
    model: Model,
    /,
    *,
    src: Annotated[str, tyro.conf.arg(metavar="FILE", help="source sentences, one per line")],
    tgt: Annotated[str, tyro.conf.arg(metavar="FILE", help="their translations, line by line")],
    layer: Annotated[
        int | None,
        optional("N", "decoder layer whose cross-attention gives the links, counted from 0", "chosen automatically"),
    ] = None,
    head: Annotated[
        int | None,
        optional(
            "N", "head of that layer, counted from 0", "with --layer the mean of its heads, else chosen automatically"
        ),
    ] = None,
    gold: Annotated[
        str | None,
        optional(
            "FILE", "reference alignments, `i-j` sure and `i?j` possible: they choose the head and score it", "none"
        ),
    ] = None,
    gold_one_based: Annotated[bool, flag("the words in --gold are numbered from 1")] = False,
    all_heads: Annotated[bool, flag("print AER, F1, precision and recall of every head, and no alignments")] = False,
    method: Annotated[
        str,
        tyro.conf.arg(metavar="NAME", help="how weights become links: argmax, mutual or threshold"),
        Choices.from_words("argmax", "mutual", "threshold"),
    ] = "argmax",
    threshold: Annotated[
        float | None, optional("X", "with --method threshold: smallest weight that is a link", "0.2")
    ] = None,
    row: Annotated[
        str | None,
        optional(
            "NAME",
            "writes or reads: count the weights of the decoder step that writes a word, or that reads it",
            "both are tried",
        ),
        Choices.from_words("writes", "reads"),
    ] = None,
    tokens: Annotated[bool, flag("align tokens instead of words")] = False,
    output: Annotated[
        str, tyro.conf.arg(aliases=["-o"], metavar="FILE", help="output file; - is standard output")
    ] = "-",
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Print the word alignment of each sentence pair, read from a cross-attention head of the translator: `0-0 1-2`,
    source word before target word, counted from 0.

    Without --layer the head is chosen automatically. With --gold, it is the head that agrees best with the reference
    alignments. Without --gold, it is the head that validation chose at the end of training, as recorded in the model
    folder; if none is recorded, the head with the most links that are the same in both directions. Choose the head on
    other sentences than the ones you report a score for. A pair that cannot be aligned or has an empty side gives an
    empty line; a warning names a pair that cannot be aligned.

    example: pellucid align run --src test.de --tgt test.en > test.de-en
    example: pellucid align run --src test.de --tgt test.en --gold gold.de-en --all-heads
    """
    from dataclasses import replace
    from typing import Any, get_args

    from pellucid.analysis.align import (
        NOTHING,
        ParallelLines,
        align_lines,
        choose_head,
        make_extraction,
        open_translator,
        report,
        score_lines,
    )
    from pellucid.analysis.aligning_head import Agreement
    from pellucid.analysis.alignment import write_links
    from pellucid.errors import ConfigError
    from pellucid.files.writing import check_writable
    from pellucid.streams.streams import writer
    from pellucid.weights.aligning_head import Row

    if all_heads and gold is None:
        raise ConfigError("`--all-heads` requires `--gold`", "name a file of reference alignments: `--gold FILE`")
    if all_heads and layer is not None:
        raise ConfigError(f"`--all-heads` and `--layer {layer}` exclude each other", "leave one out")
    if gold_one_based and gold is None:
        raise ConfigError("`--gold-one-based` requires `--gold`", "add `--gold FILE`, or leave --gold-one-based out")
    if head is not None and layer is None:
        raise ConfigError(f"`--head {head}` requires `--layer`", "add the layer, as in `--layer 3`")
    model = add_revision(model, revision)
    as_named: Any = method, threshold, row, "tokens" if tokens else "words"
    extraction = make_extraction(*as_named)
    rows = [extraction.row] if row else get_args(Row)
    if output != "-":
        check_writable(output)
    lines = ParallelLines.read(src, tgt, gold, gold_one_based)
    if not tokens:
        lines.check_gold()
    translator = open_translator(model, device, dtype, languages=(src_lang, tgt_lang))
    if all_heads:
        with writer(output) as file:
            file.write(report(score_lines(translator, lines, extraction, rows)) + "\n")
        return 0
    if layer is None:
        chosen = choose_head(translator, lines, extraction, rows)
        if chosen is None:
            log_line(f"warning: {NOTHING}")
        else:
            layer, head, extraction = chosen.layer, chosen.head, replace(extraction, row=chosen.row)
            log_line(f"aligned by {chosen.reason}")
    total = Agreement()
    with writer(output) as file:
        for number, links in enumerate(align_lines(translator, lines, layer, head, extraction)):
            file.write(write_links(links) + "\n")
            if lines.gold is not None:
                total += Agreement.from_links(links, lines.gold[number])
    if lines.gold is not None:
        log_line(total.report())
    return 0
