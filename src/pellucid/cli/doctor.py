"""`pellucid doctor`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Settings
from pellucid.cli.texts import DataDir, Sources, Targets, ValidSource, ValidTarget, text, with_texts


def doctor(
    *,
    src: Sources = (),
    tgt: Targets = (),
    valid_src: ValidSource = "",
    valid_tgt: ValidTarget = "",
    test_src: Annotated[str, text("source sentences of the test, to look for in the training text")] = "",
    test_tgt: Annotated[str, text("their translations")] = "",
    recipe: Annotated[str, tyro.conf.arg(metavar="RECIPE", help="whose texts and settings are taken")] = "default",
    data_dir: DataDir = "",
    set: Settings = (),
) -> int:
    """Look at a corpus before it is paid for: a line for each check, ok, note or BAD, with the first place and what to
    do. Exit status 1 when something stops or spoils a training (BAD), else 0.

    example: pellucid doctor --src train.de --tgt train.en --test-src test.de --test-tgt test.en
    """
    import os
    import shutil
    import sys

    from pellucid.config import Recipe
    from pellucid.data.doctor import check_corpus
    from pellucid.data.locate import locate

    data = with_texts(
        Recipe.load(recipe, list(set)).data,
        src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt, test_src=test_src, test_tgt=test_tgt,
    )  # fmt: skip
    terminal = sys.stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size().columns if terminal else 0
    bad = False
    for check in check_corpus(locate(data, data_dir)):
        print(check.in_words(colour, width), flush=True)
        bad = bad or check.level == "BAD"
    return 1 if bad else 0
