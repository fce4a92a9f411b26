"""The texts of a corpus as options: `--src a.de --src b.de --tgt a.en --tgt b.en`."""

from typing import Annotated, Any

import tyro

from pellucid.cli.options import ON_BAD_UTF8, OneEach, OneOnly, optional


def text(help: str) -> Any:
    """Returns the description of an option that names a text."""
    return optional("FILE", help, "as the recipe says")


Sources = Annotated[
    tuple[str, ...],
    text(
        "source sentences, one a line, plain, gzip or zst; or both sides in one: .tsv, .jsonl, .parquet, .tmx, OPUS's "
        ".zip, a folder of `datasets`; or a .list of files; again for another corpus"
    ),
    tyro.conf.UseAppendAction,
]
Targets = Annotated[
    tuple[str, ...], text("their translations, line by line, in the order of the sources"), tyro.conf.UseAppendAction
]
ValidSource = Annotated[str, text("source sentences to validate on"), OneOnly()]
ValidTarget = Annotated[str, text("their translations"), OneOnly()]
ValidSources = Annotated[
    tuple[str, ...],
    text("source sentences to validate on; of several pairs of languages again for another pair"),
    tyro.conf.UseAppendAction,
    OneEach("for a text to train on, `--src {word}`"),
]
ValidTargets = Annotated[
    tuple[str, ...],
    text("their translations"),
    tyro.conf.UseAppendAction,
    OneEach("for a text to train on, `--tgt {word}`"),
]
OnBadUtf8 = Annotated[
    str,
    optional("WORD", "a line that is not UTF-8: error, replace bad bytes, or skip the pair", "as the recipe says"),
    ON_BAD_UTF8,
]
DataDir = Annotated[str, optional("FOLDER", "where the recipe's texts lie", "PELLUCID_DATA")]
