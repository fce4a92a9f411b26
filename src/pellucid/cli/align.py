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
    at_revision,
    flag,
    optional,
)


def align(
    model: Model,
    /,
    *,
    src: Annotated[str, tyro.conf.arg(metavar="FILE", help="source sentences, one a line")],
    tgt: Annotated[str, tyro.conf.arg(metavar="FILE", help="their translations, line by line")],
    layer: Annotated[
        int | None, optional("N", "the decoder layer to align by, from 0", "that of the head that is found")
    ] = None,
    head: Annotated[
        int | None, optional("N", "its head, from 0", "with --layer the mean of its heads, else as found")
    ] = None,
    gold: Annotated[
        str | None,
        optional("FILE", "right alignments, `i-j` sure and `i?j` possible, to choose by and to score", "none"),
    ] = None,
    gold_from_one: Annotated[bool, flag("the words of --gold count from 1")] = False,
    all_heads: Annotated[bool, flag("print AER, F1, precision and recall of every head instead")] = False,
    method: Annotated[
        str,
        tyro.conf.arg(metavar="NAME", help="argmax, mutual or threshold"),
        Choices.of("argmax", "mutual", "threshold"),
    ] = "argmax",
    threshold: Annotated[float | None, optional("X", "with --method threshold: the least weight", "0.2")] = None,
    row: Annotated[
        str | None,
        optional("NAME", "whose weights a word has: of the step that writes or reads it", "both are tried"),
        Choices.of("writes", "reads"),
    ] = None,
    tokens: Annotated[bool, flag("align tokens, not words")] = False,
    output: Annotated[
        str, tyro.conf.arg(aliases=["-o"], metavar="FILE", help="where to write; - is standard output")
    ] = "-",
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Print the word alignment of each pair of lines, as a head of the translator's cross-attention shows it:
    `0-0 1-2`, source before target, words counted from 0.

    Without --layer the head is found: the one that agrees best with --gold, or else the one most of whose links are
    the same from source to target. Choose it on other sentences than those that you report a score for.

    example: pellucid align run --src test.de --tgt test.en > test.de-en
    example: pellucid align run --src test.de --tgt test.en --gold gold.de-en --all-heads
    """
    import sys
    from dataclasses import replace
    from typing import Any, get_args

    from pellucid.analysis.align import (
        ParallelLines,
        align_lines,
        choose_head,
        extraction_of,
        open_translator,
        report,
        score_lines,
    )
    from pellucid.analysis.aligning_head import Agreement
    from pellucid.analysis.alignment import Row, write_links
    from pellucid.errors import ConfigError
    from pellucid.files.writing import writable
    from pellucid.streams.streams import writer

    if all_heads and gold is None:
        raise ConfigError("`--all-heads` has nothing to compare with", "name right alignments with `--gold`")
    if all_heads and layer is not None:
        raise ConfigError(f"`--all-heads` and `--layer {layer}` exclude each other", "leave one out")
    if gold_from_one and gold is None:
        raise ConfigError("`--gold-from-one` has no alignments to count", "name them with `--gold`, or leave it out")
    if head is not None and layer is None:
        raise ConfigError(f"`--head {head}` needs a `--layer`", "name the layer, too")
    model = at_revision(model, revision)
    as_named: Any = method, threshold, row, "tokens" if tokens else "words"
    extraction = extraction_of(*as_named)
    rows = [extraction.row] if row else get_args(Row)
    if output != "-":
        writable(output)
    lines = ParallelLines.read(src, tgt, gold, gold_from_one)
    if not tokens:
        lines.check_gold()
    translator = open_translator(model, device, dtype, languages=(src_lang, tgt_lang))
    if all_heads:
        with writer(output) as file:
            file.write(report(score_lines(translator, lines, extraction, rows)) + "\n")
        return 0
    if layer is None:
        chosen = choose_head(translator, lines, extraction, rows)
        layer, head, extraction = chosen.layer, chosen.head, replace(extraction, row=chosen.row)
        print(f"aligned by {chosen.reason}", file=sys.stderr)
    total = Agreement()
    with writer(output) as file:
        for number, links in enumerate(align_lines(translator, lines, layer, head, extraction)):
            file.write(write_links(links) + "\n")
            if lines.gold is not None:
                total += Agreement.of(links, lines.gold[number])
    if lines.gold is not None:
        print(total.report(), file=sys.stderr)
    return 0
