"""Turns signals to stop into an exception, so that a command cleans up before it ends."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pellucid.process import STOP_SIGNALS


class StopRequested(BaseException):
    """Raised on a signal to stop. Not an Exception, so that no handler of failures catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"interrupted by {signal.Signals(number).name}; run the same command again to redo unsaved work"
        )
        self.signal = number


@contextmanager
def stop_signals() -> Iterator[None]:
    """Raises StopRequested on a signal to stop, within its context; an ignored signal stays ignored, as under nohup.

    Further signals are ignored during the cleanup: a terminal that is closed sends several.
    """
    before: dict[signal.Signals, Any] = {}

    def stop(number: int, frame: FrameType | None) -> None:
        for stopping in before:
            signal.signal(stopping, signal.SIG_IGN)
        raise StopRequested(number)

    try:
        for number in STOP_SIGNALS:
            if (handler := signal.getsignal(number)) != signal.SIG_IGN:
                signal.signal(number, stop)
                before[number] = handler
    except ValueError:  # not in the main thread, which alone receives signals
        pass
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
