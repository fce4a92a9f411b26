"""`pellucid bench`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Model, Revision, Threads, add_revision, flag, optional
from pellucid.terminal import show


def bench(
    model: Model,
    /,
    *,
    input: Annotated[
        str | None, optional("FILE", "input lines to measure with", "the run's validation text, or a built-in text")
    ] = None,
    seconds: Annotated[float, tyro.conf.arg(metavar="X", help="approximate time limit of the measurement")] = 60.0,
    json: Annotated[bool, flag("print one JSON object, with the spread over all rounds")] = False,
    revision: Revision = None,
    threads: Threads = None,
) -> int:
    """Measure how fast a model is on this machine's processor, and print the command to use.

    The measurement compares engines, data types, processes and threads, for lines in batches and for single lines,
    and gives each speed as a share of the processor's peak. All configurations take turns, round by round. Run nothing
    else on the machine at the same time.

    example: pellucid bench run
    example: pellucid bench run --input mine.de --seconds 120 --json > bench.json
    """
    from json import dumps

    from rich.console import Console

    from pellucid.benchmark.bench import bench as measure
    from pellucid.cli.bench_report import report
    from pellucid.process import keep_freed_memory

    keep_freed_memory()
    console = Console(stderr=True, highlight=False, soft_wrap=True)

    def log_line(text: str) -> None:
        # The next line overwrites this one. No thread draws it, since the process forks during the measurement.
        if console.is_terminal:
            console.print(f"\r{text[: console.width - 1]:<{console.width - 1}}", end="\r", markup=False)

    found = measure(add_revision(model, revision), input, seconds=seconds, threads=threads, log_line=log_line)
    if console.is_terminal:
        log_line("")
    if json:
        print(dumps(found.to_json(), ensure_ascii=False, indent=2))
        return 0
    show("\n".join(report(found)), 6)
    return 0
