"""The texts of a corpus as options: `--src a.de --src b.de --tgt a.en --tgt b.en`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pellucid.cli.options import optional

if TYPE_CHECKING:
    from pellucid.config import DataConfig


def text(help: str) -> Any:
    """The description of an option that names a text."""
    return optional("FILE", help, "as the recipe says")


Sources = Annotated[
    tuple[str, ...],
    text("source sentences, one a line, plain or gzip; or a .tsv or .jsonl with both sides; again for another corpus"),
    tyro.conf.UseAppendAction,
]
Targets = Annotated[
    tuple[str, ...], text("their translations, line by line, in the order of the sources"), tyro.conf.UseAppendAction
]
ValidSource = Annotated[str, text("source sentences to validate on")]
ValidTarget = Annotated[str, text("their translations")]
OnBadUtf8 = Annotated[
    str, optional("WORD", "a line that is not UTF-8: error, replace bad bytes, or skip the pair", "as the recipe says")
]
DataDir = Annotated[str, optional("FOLDER", "where the recipe's texts lie", "PELLUCID_DATA")]


def with_texts(data: "DataConfig", **given: str | tuple[str, ...]) -> "DataConfig":
    """`data` with the texts that were given. A source that holds both sides takes the place of a target, too."""
    from pellucid.data.parallel import holds_both_sides

    named: dict[str, Any] = {name: paths for name, paths in given.items() if paths}
    for src in ("src", "valid_src", "test_src"):
        tgt = src.replace("src", "tgt")
        paths = named.get(src, ())
        if paths and tgt not in named and all(map(holds_both_sides, [paths] if isinstance(paths, str) else paths)):
            named[tgt] = ""
    return replace(data, **named)
