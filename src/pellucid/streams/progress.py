"""The progress of a stream of lines: a bar on a terminal, else a line from time to time."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:  # imported only to show progress, so that a single sentence is answered faster
    from rich.console import Console
    from rich.progress import Progress

SECONDS_BETWEEN_LINES = 30.0


class LineProgress:
    """Shows lines done, lines per second, and the remaining time if the size of the input is known."""

    def __init__(self, *, shown: bool, clock: Callable[[], float] = time.monotonic) -> None:
        """`shown`: whether to show progress: False for lines that are typed in or come from a waiting program."""
        self._clock = clock
        self._started = self._told = clock()
        self._begun: tuple[int, float] | None = None
        self._bar: Progress | None = None
        self._console: Console | None = None
        if shown:
            self._show()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
        if self._console.is_terminal:
            columns = TextColumn("{task.fields[text]}"), BarColumn()
            self._bar = Progress(*columns, console=self._console, refresh_per_second=2, transient=True)
            self._task = self._bar.add_task("", total=None, text="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, lines: int, share: float | None) -> None:
        """Sets the starting point, so that lines done by an earlier command do not count as speed."""
        self._begun = lines, share or 0.0
        self._started = self._told = self._clock()

    def update(self, lines: int, share: float | None) -> None:
        """Shows that `lines` lines are done, and the fraction `share` of the input that is read, if known."""
        text = self._text(lines, share)
        if self._bar is not None:
            self._bar.update(self._task, completed=share, total=None if share is None else 1.0, text=text)
        elif self._console is not None and self._clock() - self._told >= SECONDS_BETWEEN_LINES:
            self._console.print(text, markup=False)
            self._told = self._clock()

    def _text(self, lines: int, share: float | None) -> str:
        before, share_before = self._begun or (0, 0.0)
        seconds = max(self._clock() - self._started, 1e-9)
        text = f"{lines:,} lines, {(lines - before) / seconds:,.0f} lines/s"
        if share is None or share <= share_before:
            return text
        left = seconds * (1 - share) / (share - share_before)
        return f"{text}, {share:.0%} of the input, {_duration(left)} left".replace("%", " %")


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
