"""How far a download is: a bar on a terminal, a few lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich import filesize
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bars

from pellucid.data.transfer import Progress

STEP = 20_000_000
"""Bytes between two lines."""


def say(text: str) -> None:
    """A line for the reader."""
    print(text, file=sys.stderr)


@contextmanager
def shown(name: str) -> Iterator[Progress]:
    """What a transfer reports its progress to, while it lasts."""
    console = Console(stderr=True)
    if console.is_terminal:
        with _bar(name, console) as progress:
            yield progress
    else:
        yield _lines(name)


@contextmanager
def _bar(name: str, console: Console) -> Iterator[Progress]:
    columns = (
        TextColumn("  {task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _lines(name: str) -> Progress:
    last = 0

    def progress(done: int, total: int | None) -> None:
        nonlocal last
        if done - last >= STEP:
            last = done
            say(f"  {name}: {filesize.decimal(done)}{f' of {filesize.decimal(total)}' if total else ''}")

    return progress
