"""Defers Ctrl-C, SIGTERM, a closed terminal and a scheduler's warning until a step is complete."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from pellucid.process import STOP_SIGNALS, WARNING_SIGNALS

STDERR = 2


class TrainingInterrupted(Exception):
    """Raised when a signal stopped the run; the same command resumes after step `saved_step`.

    `saved_step` is the current step, unless its checkpoint could not be written.
    """

    def __init__(self, number: int, step: int, saved_step: int) -> None:
        name = signal.Signals(number).name
        super().__init__(
            f"interrupted by {name}; the state is saved, run the same command again to resume"
            if saved_step == step
            else f"interrupted by {name} at step {step:,}, which could not be saved; the same command resumes "
            + (f"after step {saved_step:,}" if saved_step else "from the start")
        )
        self.signal = number
        self.saved_step = saved_step


class Interrupts:
    """Records the first signal within its context in `received`; a second one takes effect at once.

    The signals of WARNING_SIGNALS, such as SIGHUP of a closed terminal and SIGUSR1 of Slurm, request a stop as well,
    unless they were ignored before, as under nohup. They never take effect at once, however often they come.

    Args:
        of_several: this is one of several processes that stop together. Their second signals have no effect, as a
            terminal and torchrun both send them; the end of torchrun counts as a signal.
    """

    SIGNALS = (signal.SIGINT, *STOP_SIGNALS)

    def __init__(self, of_several: bool = False) -> None:
        self._noted: int | None = None
        self._of_several, self._parent = of_several, os.getppid()
        self._before: dict[signal.Signals, Any] = {}

    @property
    def received(self) -> int | None:
        """Returns the first signal; None if there was none."""
        if self._of_several and os.getppid() != self._parent:
            return self._noted or signal.SIGTERM
        return self._noted

    def __enter__(self) -> Self:
        for number in self.SIGNALS:
            if number in WARNING_SIGNALS and signal.getsignal(number) == signal.SIG_IGN:
                continue
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:  # not the main thread, which receives no signals
                break
        return self

    def __exit__(self, *_: object) -> None:
        self._restore(self.SIGNALS)

    def _note(self, number: int, frame: FrameType | None) -> None:
        is_first = self._noted is None
        self._noted = self._noted or number
        if self._of_several:
            return
        if number not in WARNING_SIGNALS:
            self._restore((signal.SIGINT, signal.SIGTERM))
        if not is_first:
            return
        # Not through sys.stderr: the signal may have interrupted a print, whose buffer is not reentrant.
        with suppress(OSError):
            os.write(STDERR, b"stopping when this step is whole and saved; the next signal stops at once\n")

    def _restore(self, numbers: Iterable[signal.Signals]) -> None:
        for number in numbers:
            if number in self._before:
                signal.signal(number, self._before.pop(number))
