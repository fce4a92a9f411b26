"""Holds Ctrl-C, SIGTERM and a closed terminal back until a step is whole."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

STDERR = 2


class Interrupted(Exception):
    """Says that a signal stopped the run; the same command goes on after step `saved_step`.

    That is the step it had come to, unless the disk did not take its state.
    """

    def __init__(self, number: int, step: int, saved_step: int) -> None:
        name = signal.Signals(number).name
        super().__init__(
            f"stopped by {name}; the state is saved, the same command goes on from there"
            if saved_step == step
            else f"stopped by {name} at step {step:,}, which could not be saved; the same command goes on "
            + (f"after step {saved_step:,}" if saved_step else "from the start")
        )
        self.signal = number
        self.saved_step = saved_step


class Interrupts:
    """Notes the first signal within its context in `received`; a second one acts at once.

    A terminal or connection that is closed (SIGHUP; SIGBREAK on Windows) asks to stop, too, unless that was ignored
    before, as under nohup; but it insists on nothing: it comes several times, and with others.

    Args:
        of_several: this is one of several processes that stop together. Their signals insist on nothing either, as a
            terminal and torchrun both send them; and that torchrun has gone is a signal, too.
    """

    HANG_UPS = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGBREAK") if hasattr(signal, name))
    SIGNALS = (signal.SIGINT, signal.SIGTERM, *HANG_UPS)

    def __init__(self, of_several: bool = False) -> None:
        self._noted: int | None = None
        self._of_several, self._parent = of_several, os.getppid()
        self._before: dict[signal.Signals, Any] = {}

    @property
    def received(self) -> int | None:
        """Returns the first signal; None: there was none."""
        if self._of_several and os.getppid() != self._parent:
            return self._noted or signal.SIGTERM
        return self._noted

    def __enter__(self) -> Self:
        for number in self.SIGNALS:
            if number in self.HANG_UPS and signal.getsignal(number) == signal.SIG_IGN:
                continue
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:  # not in the main thread: signals do not come here
                break
        return self

    def __exit__(self, *_: object) -> None:
        self._restore(self.SIGNALS)

    def _note(self, number: int, frame: FrameType | None) -> None:
        is_first = self._noted is None
        self._noted = self._noted or number
        if self._of_several:
            return
        if number not in self.HANG_UPS:
            self._restore((signal.SIGINT, signal.SIGTERM))
        if not is_first:
            return
        # Past sys.stderr: the signal may have come within a print, whose buffer takes no second writer.
        with suppress(OSError):
            os.write(STDERR, b"stopping when this step is whole and saved; the next signal stops at once\n")

    def _restore(self, numbers: Iterable[signal.Signals]) -> None:
        for number in numbers:
            if number in self._before:
                signal.signal(number, self._before.pop(number))
