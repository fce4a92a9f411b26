"""`pellucid demo`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Device


def demo(
    *,
    out: Annotated[
        str, tyro.conf.arg(metavar="FOLDER", help="leaves corpus, run, look.html and attention.svg here")
    ] = "pellucid-demo",
    device: Device = "auto",
) -> int:
    """Train a small model on written dates in five languages, translate some, and put it into a page: a minute or two.

    example: pellucid demo --out pellucid-demo
    """
    import sys
    from pathlib import Path

    from pellucid.demo import run_demo

    result = run_demo(out, device)
    share = 100 * result.exact / result.total
    print(f"{result.exact:,} of {result.total:,} held-out dates are right to the last character ({share:.1f} %)")
    print(
        f"{result.seconds:.0f} s in all; its model is in {out}/run: pellucid translate {out}/run < FILE",
        file=sys.stderr,
    )
    print(f"next: open {Path(out) / 'look.html'} in a browser, and write a date", file=sys.stderr)
    return 0
