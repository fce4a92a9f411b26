"""`pellucid demo`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Device, flag
from pellucid.terminal import log_line


def demo(
    *,
    out: Annotated[
        str, tyro.conf.arg(metavar="FOLDER", help="folder for the corpus, the run, look.html and attention.svg")
    ] = "pellucid-demo",
    trained: Annotated[bool, flag("copy the trained model that comes with Pellucid in place of training one")] = False,
    device: Device = "auto",
) -> int:
    """Train a small model that translates dates in five languages to ISO dates, translate some, and write the model
    into an HTML page. It takes a minute or two; with --trained some seconds.

    example: pellucid demo --out pellucid-demo
    example: pellucid demo --trained
    """
    from pathlib import Path

    from pellucid.demo import run_demo

    result = run_demo(out, device, trained=trained)
    share = 100 * result.exact / result.total
    print(f"{result.exact:,} of {result.total:,} held-out dates are right to the last character ({share:.1f} %)")
    log_line(f"{result.seconds:.0f} s in total; the model is in {out}/run: pellucid translate {out}/run < FILE")
    log_line(f"next: open {Path(out) / 'look.html'} in a browser, and type a date")
    return 0
