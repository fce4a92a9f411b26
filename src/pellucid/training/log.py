"""Logs a run: in metrics.jsonl and `logging`, on standard error, and in TensorBoard if requested.

A program that uses Pellucid as a library receives each message at `logging.getLogger("pellucid")`, even if `quiet=True`
suppresses standard error.
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

from pellucid.config.train import GONE_TRACKERS
from pellucid.files.reading import parse_json
from pellucid.files.writing import describe_disk_error, fsync, is_disk_failure, write_text
from pellucid.terminal import wrap_text
from pellucid.training.trackers import TensorBoard, select_trackers

METRICS = "metrics.jsonl"
"""A run's file of numbers, one line per logged event."""
MOST_WAITING = 10_000
"""Maximum number of lines buffered in memory while the disk is full, a few megabytes; then the oldest are dropped."""
WIDE = 100
"""Terminal width from which the bar and the elapsed time are shown, too."""
AT_THE_END = ("candidate", "average", "end")
"""Events after the last checkpoint; the second is from earlier versions."""
LOGGER = logging.getLogger("pellucid")
LOGGER.addHandler(logging.NullHandler())  # otherwise Python prints warnings if logging is not configured


def log_message(text: str) -> None:
    """Passes a message to `logging`: as a warning if it begins with "warning: ", otherwise as information."""
    LOGGER.log(logging.WARNING if text.startswith("warning: ") else logging.INFO, "%s", text)


class RunLog:
    """Writes the metrics of a run, one JSON object per line, and shows a short form on standard error.

    A full disk does not end the run: lines are buffered until there is space again.

    Args:
        total_steps: the length of the progress bar.
        quiet: write nothing to standard error.
        report_to: as `train.report_to`.

    Raises ConfigError if TensorBoard is requested and not installed.
    """

    def __init__(self, folder: Path, total_steps: int, quiet: bool = False, report_to: Sequence[str] = ()) -> None:
        self.path: Path = folder / METRICS
        self.console: Console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True, emoji=False)
        self._waiting: deque[str] = deque(maxlen=MOST_WAITING)
        self._failing = False
        names = select_trackers(report_to)
        self._board = TensorBoard(folder, bool(names), self.log_line)
        if names:
            self.log_line(f"the run's metrics are also written to {', '.join(names)}")
        if gone := [name for name in report_to if name in GONE_TRACKERS]:
            self.log_line(
                f"warning: `report_to` ({', '.join(gone)}): only TensorBoard is supported, other trackers are served "
                f"by "
                "hooks"
            )
        self._bar = _Bar(self.console, total_steps) if self.console.is_terminal and not quiet else None

    def resume_at(self, step: int) -> None:
        """Keeps the lines up to the checkpoint of `step`; the later ones will be written again."""
        if self.path.exists():
            before = self.path.read_bytes()
            lines = before.splitlines(keepends=True)
            kept = b"".join(line for line in lines if _is_behind(line, step))
            if kept != before:
                write_text(self.path, kept.decode())
            for line in kept.splitlines():  # a newly requested TensorBoard has none of them
                self._hand_on(**json.loads(line))

    def write(self, event: str, step: int, **values: Any) -> None:
        """Appends a line, or buffers it if the disk is full."""
        self._waiting.append(json.dumps({"event": event, "step": step, **values}) + "\n")
        try:
            self._append()
        except OSError as error:
            if not is_disk_failure(error):
                raise
            self._complain(error)
        self._hand_on(event, step, **values)

    def flush(self) -> None:
        """Writes all buffered lines and syncs the file. Raises OSError if the disk fails."""
        self._append()
        if self.path.exists():
            fsync(self.path)

    def _append(self) -> None:
        """Writes the buffered lines, all of them or none."""
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
        """Warns of a full disk once, until a write succeeds."""
        if not self._failing:
            self.log_line(
                f"warning: `{self.path}` could not be written: {describe_disk_error(error, self.path.parent)}\n"
                "  Training continues, and its lines are kept in memory until disk space is free."
            )
        self._failing = True

    def _hand_on(self, event: str, step: int, **values: Any) -> None:
        if event != "candidate":  # there are several per step
            self._board.write(event, step, values)

    def progress(self, step: int, text: str) -> None:
        """Shows the progress of the run: a bar on a terminal, otherwise a line."""
        if self._bar is not None:
            self._bar.update(step, text)
            log_message(f"step {step:,}: {text}")
        else:
            self.log_line(f"step {step:,}: {text}")

    def ends_at(self, step: int) -> None:
        """Sets the last step of the bar."""
        if self._bar is not None:
            self._bar.ends_at(step)

    def log_line(self, text: str) -> None:
        """Prints a line, and passes it to `logging`."""
        log_message(text)
        self.console.print(wrap_text(text) if self.console.is_terminal else text, markup=False)

    def close(self) -> None:
        """Closes the bar and TensorBoard, which writes its buffer."""
        if self._bar is not None:
            self._bar.stop()
        self._board.close()


class SilentLog(RunLog):
    """The log of the ranks after the first, which writes nothing."""

    def __init__(self, folder: Path) -> None:
        self.path: Path = folder / METRICS
        self.console: Console = Console(quiet=True)
        self._board, self._bar = TensorBoard(folder, False, self.log_line), None

    def resume_at(self, step: int) -> None:
        """Does nothing: rank 0 keeps the lines."""

    def write(self, event: str, step: int, **values: Any) -> None:
        """Writes nothing."""

    def flush(self) -> None:
        """Writes nothing."""

    def log_line(self, text: str) -> None:
        """Prints nothing."""


class _Bar:
    """A progress bar over all steps. On a narrow terminal the steps and the time left have priority."""

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
        for task in self._progress.tasks:  # Progress.update would discard the speed, and with it the time left
            task.total = step

    def stop(self) -> None:
        self._progress.stop()


def _is_behind(line: bytes, step: int) -> bool:
    """Returns True if a metrics line is complete, not after the checkpoint of `step`, and no event of the run's end."""
    try:
        table = parse_json(line)
        return line.endswith(b"\n") and table["step"] <= step and table["event"] not in AT_THE_END
    except (ValueError, KeyError, TypeError):
        return False
