"""Tells how a run goes: in metrics.jsonl and `logging`, on standard error, and to programs that draw it where wanted.

A program that uses Pellucid as a library hears each message at `logging.getLogger("pellucid")`, also where `quiet=True`
keeps standard error silent.
"""

import json
import logging
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pellucid.files.writing import disk_trouble, flush, is_disk_failure, write_text
from pellucid.training.trackers import Trackers, wanted

METRICS = "metrics.jsonl"
"""A run's file of numbers, a line each step that is told of."""
MOST_WAITING = 10_000
"""Lines that wait in memory while the disk is full, a few megabytes; beyond it the oldest go."""
WIDE = 100
"""Columns from which on a bar and the time gone have room beside the rest."""
AT_THE_END = ("candidate", "average", "end")
"""Events behind the last checkpoint; the second is what earlier versions wrote of their mean."""
LOGGER = logging.getLogger("pellucid")
LOGGER.addHandler(logging.NullHandler())  # else Python prints warnings itself where nobody has set up logging


def record(text: str) -> None:
    """Hands a message to `logging`: a warning where it begins with that word, else information."""
    LOGGER.log(logging.WARNING if text.startswith("warning: ") else logging.INFO, "%s", text)


class RunLog:
    """Writes the metrics of a run, one JSON object a line, and shows their short form on the screen.

    A full disk ends nothing: lines wait until it has room again.

    Args:
        total_steps: how long the bar is.
        quiet: says nothing on standard error.
        log_to: the programs that are given the numbers, as `train.log_to` has them.

    Raises ConfigError where one of these is not installed.
    """

    def __init__(self, folder: Path, total_steps: int, quiet: bool = False, log_to: Sequence[str] = ()) -> None:
        self.path: Path = folder / METRICS
        self.console: Console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True, emoji=False)
        self._waiting: deque[str] = deque(maxlen=MOST_WAITING)
        self._failing = False
        names = wanted(log_to)
        self._trackers = Trackers(folder, names, self.say)
        if names:
            self.say(f"the run's numbers go to {', '.join(names)}, too")
        self._bar = _Bar(self.console, total_steps) if self.console.is_terminal and not quiet else None

    def resume_at(self, step: int) -> None:
        """Keeps the lines that the checkpoint of `step` stands behind; the rest comes again."""
        if self.path.exists():
            before = self.path.read_bytes()
            lines = before.splitlines(keepends=True)
            kept = b"".join(line for line in lines if _is_behind(line, step))
            if kept != before:
                write_text(self.path, kept.decode())
            for line in kept.splitlines():  # one that is new has been given nothing of them
                self._hand_on(**json.loads(line))

    def write(self, event: str, step: int, **values: Any) -> None:
        """Appends a line, or has it wait where the disk is full."""
        self._waiting.append(json.dumps({"event": event, "step": step, **values}) + "\n")
        try:
            self._append()
        except OSError as error:
            if not is_disk_failure(error):
                raise
            self._complain(error)
        self._hand_on(event, step, **values)

    def flush(self) -> None:
        """Puts the lines on the disk, those that wait first. Raises OSError where it does not take them."""
        self._append()
        if self.path.exists():
            flush(self.path)

    def _append(self) -> None:
        """Writes the lines that wait, all of them or none."""
        if not self._waiting:
            return
        size = self.path.stat().st_size if self.path.exists() else 0
        try:
            with self.path.open("ab") as file:
                file.write("".join(self._waiting).encode())
        except OSError:
            if self.path.exists():
                os.truncate(self.path, size)
            raise
        self._waiting.clear()
        self._failing = False

    def _complain(self, error: OSError) -> None:
        """Warns of a full disk: once, until it is over."""
        if not self._failing:
            self.say(
                f"warning: `{self.path}` could not be written: {disk_trouble(error, self.path.parent)}\n"
                f"  Training goes on, and its lines wait in memory until there is room again."
            )
        self._failing = True

    def _hand_on(self, event: str, step: int, **values: Any) -> None:
        if event != "candidate":  # several of a step
            self._trackers.write(event, step, values)

    def progress(self, step: int, text: str) -> None:
        """Shows how far the run is: a bar on a terminal, else a line."""
        if self._bar is not None:
            self._bar.update(step, text)
            record(f"step {step:,}: {text}")
        else:
            self.say(f"step {step:,}: {text}")

    def ends_at(self, step: int) -> None:
        """Makes another step the last one of the bar."""
        if self._bar is not None:
            self._bar.ends_at(step)

    def say(self, text: str) -> None:
        """Prints a line for the reader, and hands it to `logging`."""
        record(text)
        self.console.print(text, markup=False)

    def close(self) -> None:
        """Ends the bar, has others write out what they hold back."""
        if self._bar is not None:
            self._bar.stop()
        self._trackers.close()


class SilentLog(RunLog):
    """Takes what the ranks after the first tell, and writes none of it."""

    def __init__(self, folder: Path) -> None:
        self.path: Path = folder / METRICS
        self.console: Console = Console(quiet=True)
        self._trackers, self._bar = Trackers(folder, (), self.say), None

    def resume_at(self, step: int) -> None:
        """Leaves the lines to the first rank."""

    def write(self, event: str, step: int, **values: Any) -> None:
        """Writes nothing."""

    def flush(self) -> None:
        """Writes nothing."""

    def say(self, text: str) -> None:
        """Says nothing."""


class _Bar:
    """Shows a progress bar over all steps. On a narrow terminal the steps and the time left come before all else."""

    def __init__(self, console: Console, total: int) -> None:
        step, left = TextColumn("step {task.completed:,.0f} of {task.total:,.0f}"), TextColumn("left")
        self._console, self._total = console, total
        columns: tuple[ProgressColumn, ...] = (step, TextColumn("{task.fields[text]}"), left, TimeRemainingColumn())
        if console.width >= WIDE:
            columns = (step, BarColumn(), *columns[1:2], TimeElapsedColumn(), *columns[2:])
        self._progress = Progress(*columns, console=console, refresh_per_second=2, speed_estimate_period=600)
        self._task: TaskID = self._progress.add_task("", total=total, text="")
        self._progress.start()

    def update(self, step: int, text: str) -> None:
        room = self._console.width - len(f"step {self._total:,} of {self._total:,}") - len(" left 9:59:59 ") - 1
        parts = text.split(", ")
        while self._console.width < WIDE and len(parts) > 1 and len(", ".join(parts)) > room:
            parts.pop()
        self._progress.update(self._task, completed=step, text=", ".join(parts))

    def ends_at(self, step: int) -> None:
        self._total = step
        self._progress.update(self._task, total=step)

    def stop(self) -> None:
        self._progress.stop()


def _is_behind(line: bytes, step: int) -> bool:
    """Returns whether a metrics line is whole and older than the checkpoint of `step`, which nothing of the end is."""
    try:
        table = json.loads(line)
        return line.endswith(b"\n") and table["step"] <= step and table["event"] not in AT_THE_END
    except (ValueError, KeyError, TypeError):
        return False
