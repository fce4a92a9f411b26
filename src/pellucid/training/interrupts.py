"""Ctrl-C and SIGTERM, held back until a step is whole."""

import os
import signal
from contextlib import suppress
from types import FrameType
from typing import Any, Self

STDERR = 2


class Interrupted(Exception):
    """The run was asked to stop and has saved its state; `signal` says by what."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.signal = number


class Interrupts:
    """Within its context the first signal is noted in `received`; a second one acts at once."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in self.SIGNALS:
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:  # not in the main thread: signals do not come here
                break
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()
        # Past sys.stderr: the signal may have come within a print, whose buffer takes no second writer.
        with suppress(OSError):
            os.write(STDERR, b"stopping when this step is whole and saved; the next signal stops at once\n")

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)
