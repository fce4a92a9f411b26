"""`pellucid bench`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Model, Revision, Threads, at_revision, flag, optional


def bench(
    model: Model,
    /,
    *,
    input: Annotated[
        str | None, optional("FILE", "lines to measure on, as the model reads them", "a run's validation text, or ours")
    ] = None,
    seconds: Annotated[float, tyro.conf.arg(metavar="X", help="about how long it may measure")] = 60.0,
    json: Annotated[bool, flag("print one JSON object, with all rounds' spreads")] = False,
    revision: Revision = None,
    threads: Threads = None,
) -> int:
    """Measure how fast a model is on this machine's processor: by engine, type, processes and threads, lines together
    and one at a time, as a share of what the processor can do at most; and say which command to use.

    All that is compared takes turns, round by round. Nothing else should run beside it.

    example: pellucid bench run
    example: pellucid bench run --input mine.de --seconds 120 --json > bench.json
    """
    import sys
    from json import dumps

    from rich.console import Console

    from pellucid.cli.bench_report import report
    from pellucid.cli.terminal import fitted, is_fitted
    from pellucid.measuring.bench import bench as measure
    from pellucid.process import keep_freed_memory

    keep_freed_memory()
    console = Console(stderr=True, highlight=False, soft_wrap=True)

    def say(text: str) -> None:
        # Written over by the next one: no thread draws it, since the process is copied meanwhile.
        if console.is_terminal:
            console.print(f"\r{text[: console.width - 1]:<{console.width - 1}}", end="\r", markup=False)

    found = measure(at_revision(model, revision), input, seconds=seconds, threads=threads, say=say)
    if console.is_terminal:
        say("")
    if json:
        print(dumps(found.to_json(), ensure_ascii=False, indent=2))
        return 0
    text = "\n".join(report(found))
    print(fitted(text, 6) if is_fitted(sys.stdout) else text)
    return 0
