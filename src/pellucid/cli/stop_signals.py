"""Signals that ask a command to stop, as an exception: what it has begun is cleared away before it ends."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""SIGHUP comes when a terminal or a connection is closed, SIGBREAK when a window of Windows is."""


class Stopped(BaseException):
    """The process was asked to end by `signal`. No Exception, so that nothing on the way takes it for a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}; the same command does again what was not saved")
        self.signal = number


@contextmanager
def stop_signals() -> Iterator[None]:
    """Within its context a signal that asks to stop raises Stopped; one that was ignored stays so, as under nohup.

    Those that follow are ignored while things are cleared away: a terminal that is closed sends several.
    """
    before: dict[int, Any] = {}

    def stop(number: int, frame: FrameType | None) -> None:
        for stopping in before:
            signal.signal(stopping, signal.SIG_IGN)
        raise Stopped(number)

    try:
        for number in STOP_SIGNALS:
            if (handler := signal.getsignal(number)) != signal.SIG_IGN:
                signal.signal(number, stop)
                before[number] = handler
    except ValueError:  # not in the main thread: signals do not come here
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
