"""The texts of a corpus as options: `--src a.de --src b.de --tgt a.en --tgt b.en`."""

from typing import Annotated, Any

import tyro

from pellucid.cli.options import ON_BAD_UTF8, RepeatedOption, SingleOption, optional


def text(help: str) -> Any:
    """Returns the description of an option that names a text."""
    return optional("FILE", help, "from the recipe")


Sources = Annotated[
    tuple[str, ...],
    text(
        "source sentences, one per line, plain, gzip or zst; or a file with both sides: .tsv, .jsonl, .parquet, .tmx, "
        "OPUS .zip, a folder saved by `datasets`; or a .list of files; may be repeated for several corpora"
    ),
    tyro.conf.UseAppendAction,
]
Targets = Annotated[
    tuple[str, ...], text("their translations, line by line, in the order of the sources"), tyro.conf.UseAppendAction
]
ValidSource = Annotated[str, text("source sentences of the validation set"), SingleOption()]
ValidTarget = Annotated[str, text("their translations"), SingleOption()]
ValidSources = Annotated[
    tuple[str, ...],
    text("source sentences of the validation set; may be repeated for several language pairs"),
    tyro.conf.UseAppendAction,
    RepeatedOption("for a text to train on, `--src {word}`"),
]
ValidTargets = Annotated[
    tuple[str, ...],
    text("their translations"),
    tyro.conf.UseAppendAction,
    RepeatedOption("for a text to train on, `--tgt {word}`"),
]
OnBadUtf8 = Annotated[
    str,
    optional("WORD", "for a line that is not UTF-8: error, replace the bad bytes, or skip the pair", "from the recipe"),
    ON_BAD_UTF8,
]
DataDir = Annotated[str, optional("FOLDER", "folder of the recipe's texts", "the environment variable PELLUCID_DATA")]
DropWorst = Annotated[
    float,
    tyro.conf.arg(metavar="X", help="share of the translations to drop: the ones with the lowest log-probability"),
]
LengthRatio = Annotated[
    float, tyro.conf.arg(metavar="X", help="drop a translation that is this many times longer or shorter than usual")
]
