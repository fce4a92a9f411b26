"""What a run tells: metrics.jsonl always, TensorBoard where it is installed, and progress on standard error."""

import importlib.util
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pellucid.weights.files import write_text


class RunLog:
    """The metrics of a run, one JSON object a line, and their short form on the screen."""

    def __init__(self, folder: Path, total_steps: int, quiet: bool = False) -> None:
        self.path = folder / "metrics.jsonl"
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True, emoji=False)
        self._board = _tensorboard(folder / "tensorboard")
        if self._board is not None:
            self.say(f"TensorBoard events go to {folder / 'tensorboard'}")
        self._bar = _Bar(self.console, total_steps) if self.console.is_terminal and not quiet else None

    def resume_at(self, step: int) -> None:
        """Keeps the lines that the checkpoint of `step` stands behind; the rest comes again."""
        if self.path.exists():
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            write_text(self.path, "".join(line for line in lines if _is_behind(line, step)))

    def write(self, event: str, step: int, **values: Any) -> None:
        """Appends a line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, "step": step, **values}) + "\n")
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{event}/{name}", value, step)

    def progress(self, step: int, text: str) -> None:
        """Shows how far the run is: a bar on a terminal, else a line."""
        if self._bar is not None:
            self._bar.update(step, text)
        else:
            self.say(f"step {step:,}: {text}")

    def say(self, text: str) -> None:
        """A line for the reader."""
        self.console.print(text, markup=False)

    def close(self) -> None:
        """Ends the bar, writes out what TensorBoard holds back."""
        if self._bar is not None:
            self._bar.stop()
        if self._board is not None:
            self._board.close()


class _Bar:
    """A progress bar over all steps."""

    def __init__(self, console: Console, total: int) -> None:
        columns = (
            TextColumn("step {task.completed:,.0f} of {task.total:,.0f}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console, refresh_per_second=2, speed_estimate_period=600)
        self._task: TaskID = self._progress.add_task("", total=total, text="")
        self._progress.start()

    def update(self, step: int, text: str) -> None:
        self._progress.update(self._task, completed=step, text=text)

    def stop(self) -> None:
        self._progress.stop()


def _is_behind(line: str, step: int) -> bool:
    """Whether a metrics line is whole and older than the checkpoint of `step`, which no average is."""
    try:
        table = json.loads(line)
        return line.endswith("\n") and table["step"] <= step and table["event"] != "average"
    except (ValueError, KeyError, TypeError):
        return False


def _tensorboard(folder: Path) -> Any:
    """A writer of TensorBoard events, where that is installed."""
    if importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))
