"""`pellucid remember`."""

from typing import Annotated

import tyro

from pellucid.cli.options import optional
from pellucid.terminal import show


def remember(
    memory: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="MEMORY", help="file of the memory, created if missing; or a model folder, for its memory.sqlite"
        ),
    ],
    source: Annotated[
        str | None, tyro.conf.Positional, optional("[SOURCE]", "a source sentence", "the lines of --src")
    ] = None,
    target: Annotated[
        str | None, tyro.conf.Positional, optional("[TARGET]", "its translation", "the lines of --tgt")
    ] = None,
    /,
    *,
    src: Annotated[
        str | None,
        optional("FILE", "source sentences, one per line; or a file with both sides: .tmx, .tsv, .jsonl", "none"),
    ] = None,
    tgt: Annotated[str | None, optional("FILE", "their translations, line by line", "none")] = None,
    src_lang: Annotated[
        str | None, optional("CODE", "source language code, for a memory of several languages", "none")
    ] = None,
    tgt_lang: Annotated[
        str | None, optional("CODE", "target language code, for a memory of several languages", "none")
    ] = None,
) -> int:
    """Add corrections to a translation memory, for `translate --memory`. The last translation of a source is used.

    The corrections of a command are added together or, if the command is stopped, not at all. Several processes may add
    corrections at once.

    example: pellucid remember corrections.sqlite "Ein Hund läuft." "A dog is running."
    example: pellucid remember run --src corrected.de --tgt corrected.en
    example: pellucid remember corrections.sqlite --src memory.tmx
    """
    from pellucid.data.lines import read_pairs
    from pellucid.data.memory_file import remember_pairs, resolve_memory
    from pellucid.data.parallel import ParallelText, holds_both_sides
    from pellucid.errors import ConfigError

    if (source is None) == (src is None):
        raise ConfigError(
            "one correction or a file of corrections is required"
            if src is None
            else "SOURCE and `--src` are both given",
            "give SOURCE and TARGET, or `--src FILE --tgt FILE`",
        )
    if source is not None:
        if target is None or tgt is not None:
            raise ConfigError("SOURCE requires its translation", "give SOURCE and TARGET, and no files")
        pairs = [(source, target)]
    elif tgt is not None:
        pairs = list(read_pairs(str(src), tgt))
    elif holds_both_sides(str(src)):
        pairs = [(one or "", other or "") for one, other in ParallelText(str(src), "").pairs("error")]
        pairs = [pair for pair in pairs if all(map(str.strip, pair))]  # units in one language, empty rows
    else:
        raise ConfigError("the translations are missing: `--tgt FILE`", "name the file of translations")
    added = remember_pairs(memory, pairs, (src_lang or "", tgt_lang or ""))
    file = resolve_memory(memory)
    show(f"{added:,} of {len(pairs):,} correction{'s' if len(pairs) != 1 else ''} added\n{file}")
    return 0
