"""`pellucid average`."""

from typing import Annotated, Literal

import tyro

from pellucid.cli.options import optional


def average(
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN", help="a run folder")],
    /,
    *,
    out: Annotated[str, optional("FOLDER", "the model folder to write", "RUN-average")] = "",
    last: Annotated[int | None, optional("N", "checkpoints to average", "as many as the recipe says")] = None,
    of: Annotated[
        Literal["last", "best"] | None, optional("last|best", "the last ones or the best", "as the recipe says")
    ] = None,
) -> int:
    """Write the mean of a run's last (or best) checkpoints as a model folder of its own.

    A run keeps the best of what it may come to; this makes the others of the checkpoints that it leaves.

    example: pellucid average run --last 3 --out averaged
    example: pellucid average run --of best --out best
    """
    import sys

    from pellucid.run.average import average_run

    out = out or f"{run.rstrip('/')}-average"
    count = average_run(run, out, last, of or "")
    print(f"{out}: the mean of {count} checkpoints of {run}", file=sys.stderr)
    return 0
