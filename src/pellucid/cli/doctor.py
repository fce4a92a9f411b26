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
    """Look at a corpus before it is paid for: a line for each check, green or red with the first place and what to do.
    Exit status 0 when nothing was found, 1 when something was.

    example: pellucid doctor --src train.de --tgt train.en --test-src test.de --test-tgt test.en
    """
    import os
    import sys

    from pellucid.config import Recipe
    from pellucid.workflow.doctor import check_corpus
    from pellucid.workflow.locate import locate

    data = with_texts(
        Recipe.load(recipe, list(set)).data,
        src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt, test_src=test_src, test_tgt=test_tgt,
    )  # fmt: skip
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    healthy = True
    for check in check_corpus(locate(data, data_dir)):
        print(check.in_words(colour), flush=True)
        healthy = healthy and check.passed
    return 0 if healthy else 1
