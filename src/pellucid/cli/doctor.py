"""`pellucid doctor`."""

from typing import Annotated

import tyro

from pellucid.cli.options import RECIPES, Settings
from pellucid.cli.texts import DataDir, Sources, Targets, ValidSource, ValidTarget, text


def doctor(
    *,
    src: Sources = (),
    tgt: Targets = (),
    valid_src: ValidSource = "",
    valid_tgt: ValidTarget = "",
    test_src: Annotated[str, text("source sentences of the test, to look for in the training text")] = "",
    test_tgt: Annotated[str, text("their translations")] = "",
    recipe: Annotated[
        str, tyro.conf.arg(metavar="RECIPE", help="whose texts and settings are taken"), RECIPES
    ] = "default",
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

    from pellucid.cli.arguments import as_options
    from pellucid.data.doctor import doctor as examine

    terminal = sys.stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size().columns if terminal else 0
    checks = examine(
        src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt, test_src=test_src, test_tgt=test_tgt,
        recipe=recipe, overrides=set, data_dir=data_dir,
    )  # fmt: skip
    for check in checks:
        print(as_options(check.in_words(colour, width), doctor))
    return int(any(check.level == "BAD" for check in checks))
