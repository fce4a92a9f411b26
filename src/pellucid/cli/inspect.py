"""`pellucid inspect`."""

from typing import Annotated

import tyro

from pellucid.cli.options import (
    ATTENTIONS,
    VIEWS,
    BeamSize,
    Choices,
    Device,
    Dtype,
    PictureOutput,
    PictureWidth,
    Revision,
    SourceLanguage,
    TargetLanguage,
    at_revision,
    flag,
    optional,
)


def inspect(
    model: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL", help="a run folder, a model folder, or a .trace file")
    ],
    text: Annotated[
        str | None,
        tyro.conf.Positional,
        optional("[TEXT]", "what it reads; - is standard input", "none, for a .trace file"),
    ] = None,
    /,
    *,
    output: PictureOutput,
    view: Annotated[
        str | None,
        optional(
            "NAME",
            "overview, text, heads, matrix, model, neuron, beam, alignment, compare, evolution, flow, lens or "
            "contributions",
            "heads",
        ),
        VIEWS,
    ] = None,
    attention: Annotated[
        str | None, optional("NAME", "encoder.self, decoder.self or cross", "cross, else the first"), ATTENTIONS
    ] = None,
    layer: Annotated[int | None, optional("N", "counted from 0", "the last")] = None,
    head: Annotated[str | None, optional("N", "a number, several as 0,3, mean or max", "all of the layer")] = None,
    target: Annotated[str | None, optional("TEXT", "of a translator: its translation", "its own best")] = None,
    second: Annotated[str | None, optional("TEXT", "of an encoder: the second of two texts", "none")] = None,
    beam_size: BeamSize = None,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    row: Annotated[
        int | None, optional("N", "neuron, text, contributions: the row, counted from 0", "the first word's")
    ] = None,
    against: Annotated[
        str | None, optional("WORD", "contributions: the word to compare with", "the likeliest other")
    ] = None,
    pair: Annotated[
        str | None,
        optional("XY", "of two texts: aa, ab, ba or bb, which looks at which", "all"),
        Choices.of("aa", "ab", "ba", "bb"),
    ] = None,
    words: Annotated[bool, flag("merge the pieces of a word")] = False,
    hide_special: Annotated[bool, flag("leave special tokens out, and say how much they had")] = False,
    hide_sink: Annotated[bool, flag("leave the first token out, and say how much it had")] = False,
    compare: Annotated[str | None, optional("MODEL", "another model, or a .trace file", "none")] = None,
    gold: Annotated[str | None, optional("FILE", "right alignments, `0-0 1-2`: its first line", "none")] = None,
    all_views: Annotated[bool, flag("a page with every view, even if it has more than 8 MB")] = False,
    one_view: Annotated[bool, flag("a page with this view alone, which is smaller")] = False,
    no_model: Annotated[bool, flag("a page without the model, which it holds where that is small")] = False,
    title: Annotated[str | None, optional("TEXT", "what stands above", "what it shows")] = None,
    width: PictureWidth = None,
    scale: Annotated[float, tyro.conf.arg(metavar="X", help="dots of a PNG for each pixel of 1/96 inch")] = 2.0,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Look at what a model attends to when it reads a text: a page that needs no network and has every view (.html), a
    picture (.svg, .png), or all of it to look at later (.trace). A translator translates the text, and its search is
    recorded, too.

    example: pellucid inspect run "Ein Hund läuft." -o heads.html
    example: pellucid inspect run "Ein Hund läuft." --view matrix --layer 2 --head 5 -o matrix.svg
    example: pellucid inspect run "Ein Hund läuft." --view contributions --row 1 --against cat -o dog.svg
    example: pellucid inspect bert "The cat sat." --second "It was tired." -o pair.html
    """
    from pellucid.views.choice import Choice, read_heads
    from pellucid.views.inspect import Reading, check_request, inspect_text, read_text

    model = at_revision(model, revision)

    check_request(output, view)
    reading = Reading(
        text=None if text is None else read_text(text), target=target, second=second, beam_size=beam_size,
        source_language=src_lang, target_language=tgt_lang, device=device, dtype=dtype,
    )  # fmt: skip
    choice = Choice(
        attention=attention, layer=layer, head=read_heads(head), words=words, special=not hide_special,
        sink=not hide_sink, pair=pair, title=title, width=width, row=row,  # type: ignore[arg-type]
    )  # fmt: skip
    inspect_text(
        model, reading, output, view, choice, compare=compare, gold=gold, against=against, all_views=all_views,
        one_view=one_view, with_model=not no_model, scale=scale,
    )  # fmt: skip
    return 0
