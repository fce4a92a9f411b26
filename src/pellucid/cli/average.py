"""`pellucid average`."""

from typing import Annotated, Literal

import tyro

from pellucid.cli.options import optional
from pellucid.terminal import log_line


def average(
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN", help="a run folder")],
    /,
    *,
    out: Annotated[str, optional("FOLDER", "the model folder to write", "RUN-average")] = "",
    num_checkpoints: Annotated[
        int | None, optional("N", "number of checkpoints to average", "train.average of the recipe")
    ] = None,
    strategy: Annotated[
        Literal["last", "best"] | None,
        optional("last|best", "average the last checkpoints or the best ones", "train.average_strategy of the recipe"),
    ] = None,
) -> int:
    """Average the weights of a run's last (or best) checkpoints and write them as a separate model folder.

    At the end a training run itself selects the best of its candidates (the best validation, averages) as its model.
    This verb makes the other averages from the checkpoints that the run has left.

    example: pellucid average run --num-checkpoints 3 --out averaged
    example: pellucid average run --strategy best --out best
    """

    from pellucid.run.average import average_run

    out = out or f"{run.rstrip('/')}-average"
    count = average_run(run, out, num_checkpoints, strategy or "")
    log_line(f"{out}: average of {count} checkpoints of {run}")
    return 0
