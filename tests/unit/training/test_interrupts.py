"""The first signal is noted, the second acts, and the handlers from before come back."""

import io
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from pellucid.process import WARNING_SIGNALS
from pellucid.training.interrupts import Interrupts, TrainingInterrupted

SIGNALS = Interrupts.SIGNALS
INSISTING = SIGNALS[:2]


class Caught(Exception):
    """What the handler that was there before raises."""


def handler(number: int, frame: FrameType | None) -> None:
    raise Caught(number)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    yield
    for number, old in before.items():
        signal.signal(number, old)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize("number", INSISTING)
def test_the_first_signal_is_noted_and_the_second_acts(number: int) -> None:
    with Interrupts() as interrupts:
        assert interrupts.received is None
        os.kill(os.getpid(), number)
        assert interrupts.received == number
        with pytest.raises(Caught):
            os.kill(os.getpid(), number)
    assert handlers() == [handler] * len(SIGNALS)


@pytest.mark.parametrize("number", INSISTING)
@pytest.mark.parametrize("warning", WARNING_SIGNALS)
def test_a_closed_terminal_or_a_warning_asks_to_stop_and_insists_on_nothing(number: int, warning: int) -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), warning)
        os.kill(os.getpid(), warning)
        assert interrupts.received == warning
        os.kill(os.getpid(), number)  # supervisors send it right behind
        os.kill(os.getpid(), warning)
        assert interrupts.received == warning
        with pytest.raises(Caught):
            os.kill(os.getpid(), number)
    assert handlers() == [handler] * len(SIGNALS)


def test_a_closed_terminal_is_ignored_where_it_was() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGHUP)
        assert interrupts.received is None
    assert dict(zip(SIGNALS, handlers(), strict=True))[signal.SIGHUP] == signal.SIG_IGN


def test_the_reader_is_told_even_within_a_print(capfd: pytest.CaptureFixture[str]) -> None:
    class Interrupting(io.RawIOBase):
        """A file whose writing is met by a signal."""

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            os.kill(os.getpid(), signal.SIGINT)
            return len(bytes(data))  # type: ignore[call-overload, no-any-return]

    stderr = io.TextIOWrapper(io.BufferedWriter(Interrupting()), line_buffering=True)
    with pytest.MonkeyPatch.context() as patch, Interrupts() as interrupts:
        patch.setattr("sys.stderr", stderr)
        print("step 1", file=stderr)
        assert interrupts.received == signal.SIGINT
    assert capfd.readouterr().err.startswith("stopping when this step is whole and saved; ")


def test_handlers_come_back_without_a_signal() -> None:
    with Interrupts():
        assert handler not in handlers()
    assert handlers() == [handler] * len(SIGNALS)


def test_handlers_come_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), Interrupts():
        raise ZeroDivisionError
    assert handlers() == [handler] * len(SIGNALS)


def test_it_works_outside_the_main_thread() -> None:
    received: list[int | None] = []

    def work() -> None:
        with Interrupts() as interrupts:
            received.append(interrupts.received)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert received == [None]
    assert handlers() == [handler] * len(SIGNALS)


@pytest.mark.parametrize(("number", "name"), [(2, "SIGINT"), (15, "SIGTERM"), (1, "SIGHUP")])
@pytest.mark.parametrize(
    ("saved_step", "outcome"),
    [
        (1200, "; the state is saved, run the same command again to resume"),
        (1000, " at step 1,200, which could not be saved; the same command resumes after step 1,000"),
        (0, " at step 1,200, which could not be saved; the same command resumes from the start"),
    ],
)
def test_interrupted_says_by_what_and_what_is_saved(number: int, name: str, saved_step: int, outcome: str) -> None:
    stop = TrainingInterrupted(number, 1200, saved_step)
    assert str(stop) == f"interrupted by {name}{outcome}"
    assert (stop.signal, stop.saved_step) == (number, saved_step)
