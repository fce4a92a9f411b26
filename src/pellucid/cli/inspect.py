"""`pellucid inspect`."""

from typing import Annotated

import tyro

from pellucid.cli.options import (
    ATTENTIONS,
    Choices,
    Device,
    Dtype,
    PictureOutput,
    PictureWidth,
    Revision,
    SourceLanguage,
    TargetLanguage,
    add_revision,
    flag,
    optional,
)
from pellucid.cli.search_options import BeamSize
from pellucid.views import OF_TRACES


def inspect(
    model: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL", help="a run folder, a model folder, or a .trace file")
    ],
    text: Annotated[
        str | None,
        tyro.conf.Positional,
        optional("[TEXT]", "text that the model reads; - is standard input", "none, for a .trace file"),
    ] = None,
    /,
    *,
    output: PictureOutput,
    view: Annotated[
        str | None,
        optional(
            "NAME",
            f"view to show: {', '.join(OF_TRACES[:-1])} or {OF_TRACES[-1]}",
            "heads",
        ),
        Choices.from_words(*OF_TRACES),
    ] = None,
    attention: Annotated[
        str | None,
        optional("NAME", "attention to show: encoder.self, decoder.self or cross", "cross, else the first"),
        ATTENTIONS,
    ] = None,
    layer: Annotated[int | None, optional("N", "layer, counted from 0", "the last")] = None,
    head: Annotated[
        str | None,
        optional("N", "head, counted from 0; several as 0,3; mean or max over the heads", "all of the layer"),
    ] = None,
    target: Annotated[
        str | None, optional("TEXT", "translator: translation to show", "the model's translation")
    ] = None,
    second: Annotated[str | None, optional("TEXT", "encoder: second text of a pair", "none")] = None,
    beam_size: BeamSize = None,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    row: Annotated[
        int | None,
        optional("N", "views neuron, text, contributions: row of the attention matrix, from 0", "of the first word"),
    ] = None,
    foil: Annotated[
        str | None, optional("WORD", "view contributions: word to compare with", "the most probable other word")
    ] = None,
    pair: Annotated[
        str | None,
        optional("XY", "text pair: which text attends to which: aa, ab, ba or bb", "all"),
        Choices.from_words("aa", "ab", "ba", "bb"),
    ] = None,
    merge_words: Annotated[bool, flag("merge the tokens of a word")] = False,
    hide_special: Annotated[bool, flag("hide special tokens, and show the sum of their weights")] = False,
    hide_sink: Annotated[bool, flag("hide the first token, and show its weight")] = False,
    compare: Annotated[str | None, optional("MODEL", "view compare: another model, or a .trace file", "none")] = None,
    gold: Annotated[str | None, optional("FILE", "reference alignment, `0-0 1-2`, in its first line", "none")] = None,
    all_views: Annotated[bool, flag("write a page with every view, even if it is larger than 8 MB")] = False,
    one_view: Annotated[bool, flag("write a smaller page with only this view")] = False,
    no_model: Annotated[bool, flag("write a page without the model, which a page contains if it is small")] = False,
    title: Annotated[str | None, optional("TEXT", "title", "by content")] = None,
    width: PictureWidth = None,
    scale: Annotated[float, tyro.conf.arg(metavar="X", help="PNG: dots per pixel of 1/96 inch")] = 2.0,
    revision: Revision = None,
    device: Device = "auto",
    dtype: Dtype = None,
) -> int:
    """Show the attention of a model for a text. Depending on the file extension the output is an offline HTML page with
    all views (.html), a picture (.svg, .png), or a recording of all weights to inspect later (.trace). A translator
    translates the text, and its search is recorded, too.

    example: pellucid inspect run "Ein Hund läuft." -o heads.html
    example: pellucid inspect run "Ein Hund läuft." --view matrix --layer 2 --head 5 -o matrix.svg
    example: pellucid inspect run "Ein Hund läuft." --view contributions --row 1 --foil cat -o dog.svg
    example: pellucid inspect bert "The cat sat." --second "It was tired." -o pair.html
    """
    from pellucid.streams.source import check_is_text
    from pellucid.views.inspect import InspectReading, check_request, inspect_text, read_input_text
    from pellucid.views.view_options import ViewOptions, read_heads

    model = add_revision(model, revision)

    check_request(output, view)
    for each in (target, second):
        check_is_text(each, "give one line of the text")
    reading = InspectReading(
        text=None if text is None else read_input_text(text), target=target, second=second, beam_size=beam_size,
        source_language=src_lang, target_language=tgt_lang, device=device, dtype=dtype,
    )  # fmt: skip
    choice = ViewOptions(
        attention=attention, layer=layer, head=read_heads(head), merge_words=merge_words, special=not hide_special,
        sink=not hide_sink, pair=pair, title=title, width=width, row=row,  # type: ignore[arg-type]
    )  # fmt: skip
    inspect_text(
        model, reading, output, view, choice, compare=compare, gold=gold, foil=foil, all_views=all_views,
        one_view=one_view, with_model=not no_model, scale=scale,
    )  # fmt: skip
    return 0
