"""Processes that answer stretches of lines side by side: ended with their parent, heard of when they die."""

import multiprocessing
import os
import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

Line = TypeVar("Line")
Answer = TypeVar("Answer")
Stretches = Iterator[tuple[int, list[Line]]]
"""The number of lines before, and some lines."""
Answering = Callable[[list[Line], int], Sequence[Answer]]
"""Answers some lines, of which so many came before."""

MOST_AHEAD = 4
"""Stretches for each worker that are under way, or done and waiting for one before them: what bounds the memory."""
SECONDS_BETWEEN_LOOKS = 0.01
"""For how long a line that comes through a pipe may lie there while others are being answered."""
IGNORED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""The signals that a terminal or a supervisor sends to all processes of a command: the first one decides."""


@dataclass(frozen=True)
class _Outcome(Generic[Answer]):
    """The message that a worker sends back for a stretch."""

    answers: Sequence[Answer]
    error: Exception | None
    warned: list[tuple[Warning | str, type[Warning], str, int]]


class DeadWorkerError(PellucidError):
    """Is raised where a worker was killed, or ended by itself."""


class Workers(Generic[Line, Answer]):
    """So many processes that answer stretches of lines; whoever asks gets the answers in the order of the stretches.

    They ignore what asks to stop, since their parent ends them, and end by themselves when it is gone.
    """

    def __init__(
        self,
        count: int,
        ready: Callable[[], Answering[Line, Answer]],
        method: Literal["fork", "spawn"],
        hint: str = "lower `workers=` or `batch_tokens=`",
    ) -> None:
        """Starts them.

        Args:
            ready: makes, in each process, what answers; by "spawn" it is pickled.
            method: "spawn" starts a fresh interpreter; "fork" copies this process, which may have no threads then, and
                shares the memory of all that it has loaded.
            hint: what to do where one has died.
        """
        self._hint = hint
        context = multiprocessing.get_context(method)
        self._processes: dict[Connection, BaseProcess] = {}
        with _unheard():
            for number in range(1, count + 1):
                ours, theirs = context.Pipe()
                # A copy of our ends would keep a worker waiting for a parent that is gone.
                copies = [*self._processes, ours] if method == "fork" else []
                process = context.Process(  # type: ignore[attr-defined]
                    target=_work, args=(theirs, ready, copies), daemon=True, name=f"worker {number} of {count}"
                )
                process.start()
                theirs.close()
                self._processes[ours] = process
        self._idle = list(self._processes)

    @property
    def pids(self) -> list[int]:
        """The numbers of their processes."""
        return [process.pid or 0 for process in self._processes.values()]

    def answered(self, stretches: Stretches[Line], is_ready: Callable[[], bool]) -> Iterator[Sequence[Answer]]:
        """Yields the answers of each stretch, in their order.

        `is_ready` tells whether the next stretch can be had without waiting for it: while none can be, answers that
        are done go out.

        Raises what a worker raises, and what taking a stretch raises, after the answers before it; DeadWorkerError
        where a worker has died.
        """
        given: dict[Connection, int] = {}
        done: dict[int, _Outcome[Answer]] = {}
        warned: dict[Any, Any] = {}
        number = first = 0
        ended, failure, most = False, None, MOST_AHEAD * len(self._processes)
        while True:
            while not ended and self._idle and number - first < most and (number == first or is_ready()):
                try:
                    place, lines = next(stretches)
                except StopIteration:
                    ended = True
                except Exception as error:
                    ended, failure = True, error
                else:
                    connection = self._idle.pop()
                    self._send(connection, (lines, place))
                    given[connection], number = number, number + 1
            if number == first:
                if failure is not None:
                    raise failure
                return
            looks = not ended and self._idle and number - first < most
            spoken = wait(list(self._processes), SECONDS_BETWEEN_LOOKS if looks else None)
            for connection in (each for each in self._processes if each in spoken):
                outcome = self._receive(connection)
                ended = ended or outcome.error is not None  # what comes behind it is not wanted
                done[given.pop(connection)] = outcome
                self._idle.append(connection)
            while (found := done.pop(first, None)) is not None:
                first += 1
                for message, category, file, line in found.warned:
                    warnings.warn_explicit(message, category, file, line, registry=warned)
                if found.error is not None:
                    raise found.error
                yield found.answers

    def stop(self) -> None:
        """Ends all of them at once, whatever they are at."""
        for process in self._processes.values():
            process.kill()
        for connection, process in self._processes.items():
            process.join()
            connection.close()

    def _send(self, connection: Connection, stretch: tuple[list[Line], int]) -> None:
        with suppress(OSError):  # it has died: what it said last, or how it ended, is read next
            connection.send(stretch)

    def _receive(self, connection: Connection) -> _Outcome[Answer]:
        try:
            return connection.recv()
        except (EOFError, OSError):
            raise self._death(connection) from None

    def _death(self, connection: Connection) -> PellucidError:
        process = self._processes[connection]
        process.join()  # which says how
        code = process.exitcode or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        memory = ", which is what the system does where memory runs out" if code == -9 else ""
        return DeadWorkerError(f"{process.name} (process {process.pid}) {how}{memory}", self._hint)


def _work(connection: Connection, ready: Callable[[], Answering[Line, Answer]], copies: Sequence[Connection]) -> None:
    """Answers stretches until nobody asks any more."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for copy in copies:
        copy.close()
    # Who writes to our input, or reads our output, waits for the parent alone.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    try:
        answer = ready()
    except Exception as error:
        answer = partial(_refuse, error)  # it is told as the answer to the first stretch
    with suppress(EOFError, ConnectionError):  # the parent is gone
        while True:
            lines, place = connection.recv()
            connection.send(_outcome(answer, lines, place))


def _refuse(error: Exception, lines: list[Any], place: int) -> Sequence[Any]:
    raise error


def _outcome(answer: Answering[Line, Answer], lines: list[Line], place: int) -> _Outcome[Answer]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found, error = answer(lines, place), None
        except Exception as raised:
            raised.add_note(f"In a worker:\n{''.join(traceback.format_tb(raised.__traceback__))}")
            found, error = [], _that_can_be_sent(raised)
    return _Outcome(found, error, [(each.message, each.category, each.filename, each.lineno) for each in told])


def _that_can_be_sent(error: Exception) -> Exception:
    """Returns an error, or its words where it has parts that another process cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@contextmanager
def _unheard() -> Iterator[None]:
    """Has processes that are started here begin without hearing signals, until they ignore them; ours come later."""
    with warnings.catch_warnings():
        # Of a fork beside threads: `answering_by` sees to it that there are none that compute.
        warnings.simplefilter("ignore", DeprecationWarning)
        if sys.platform == "win32":
            yield
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def may_be_copied() -> bool:
    """Tells whether this process has no threads but this one, so that a copy of it lacks nothing and may compute.

    Copies start at once, and share the memory of the weights. Outside Linux the system's libraries start threads
    unasked.
    """
    if sys.platform != "linux":
        return False
    # numpy's library of matrix products has threads from its import on, and ends them before a fork.
    if (process := os.fork()) == 0:
        os._exit(0)
    os.waitpid(process, 0)
    return len(os.listdir("/proc/self/task")) == 1
