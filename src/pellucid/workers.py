"""Worker processes that process chunks of lines in parallel: they end with their parent, and dead or hanging workers
are detected.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pellucid.errors import PellucidError
from pellucid.process import STOP_SIGNALS, stop_with_parent
from pellucid.waits import LOOK, SILENCE, Silence, end, limit_connection, reap, wait_for_readable

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

Line = TypeVar("Line")
Answer = TypeVar("Answer")
Chunks = Iterator[tuple[int, list[Line]]]
"""Chunks: the number of preceding lines, and the lines of the chunk."""
Answering = Callable[[list[Line], int], Sequence[Answer]]
"""A function called with the lines of a chunk and the number of preceding lines; it returns an answer per line."""

MOST_AHEAD = 4
"""The most chunks per worker that are in progress or waiting for an earlier chunk, which bounds the memory."""
SECONDS_BETWEEN_LOOKS = 0.01
"""The longest time that a line from a pipe waits unread while workers are busy."""
IGNORED = (signal.SIGINT, *STOP_SIGNALS)
"""The signals that a terminal or a supervisor sends to all processes of a command: only the parent handles them."""


@dataclass(frozen=True)
class _Outcome(Generic[Answer]):
    """The message that a worker sends back for a chunk."""

    answers: Sequence[Answer]
    error: Exception | None
    warned: list[tuple[Warning | str, type[Warning], str, int]]


class DeadWorkerError(PellucidError):
    """Is raised if a worker was killed, exited, or hung and was killed."""


class Workers(Generic[Line, Answer]):
    """A pool of processes that answer chunks of lines; the answers are returned in the order of the chunks.

    Workers ignore stop signals, since their parent ends them, and exit by themselves when the parent is gone.
    """

    def __init__(
        self,
        count: int,
        make_worker: Callable[[], Answering[Line, Answer]],
        method: Literal["fork", "spawn"],
        hint: str = "lower `workers=` or `batch_tokens=`",
        silence: float = SILENCE,
    ) -> None:
        """Starts the workers.

        Args:
            make_worker: called in each process; returns the function that answers chunks. "spawn" pickles it.
            method: "spawn" starts a new interpreter; "fork" copies this process, which must have no other threads, and
                shares its memory.
            hint: the hint of the error for a dead worker.
            silence: seconds after which a worker that has a chunk and uses no processor time is killed.
        """
        self._hint = hint
        self._silence = silence
        # Linux kills a child when the thread that started it ends.
        parent = os.getpid() if threading.current_thread() is threading.main_thread() else None
        self._processes: dict[Connection, BaseProcess] = {}
        try:
            self._start(count, make_worker, method, parent)
        except OSError as error:
            self.stop()
            raise PellucidError(
                f"{count} workers cannot be started: {error.strerror or error}",
                "start fewer by `workers=`, or raise the limit of open files and of processes, as by `ulimit -n 1024`",
            ) from error
        self._idle = list(self._processes)

    def _start(
        self, count: int, ready: Callable[[], Answering[Line, Answer]], method: Literal["fork", "spawn"],
        parent: int | None,
    ) -> None:  # fmt: skip
        context = multiprocessing.get_context(method)
        with _unheard():
            for number in range(1, count + 1):
                ours, theirs = context.Pipe()
                # A worker with a copy of the parent's ends would wait forever for a parent that is gone.
                copies = [*self._processes, ours] if method == "fork" else []
                process = context.Process(  # type: ignore[attr-defined]
                    target=_work, args=(theirs, ready, copies, parent), daemon=True, name=f"worker {number} of {count}"
                )
                process.start()
                theirs.close()
                self._processes[ours] = process
                limit_connection(ours, self._silence)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [process.pid or 0 for process in self._processes.values()]

    def answer_chunks(self, chunks: Chunks[Line], is_ready: Callable[[], bool]) -> Iterator[Sequence[Answer]]:
        """Yields the answers of each chunk, in their order.

        `is_ready` returns True if the next chunk is available without waiting; while it is not, finished answers are
        yielded.

        Raises the exceptions of workers and of `chunks`, after the answers of all earlier chunks; DeadWorkerError if a
        worker has died or hangs.
        """
        silence = Silence(self._silence)
        given: dict[Connection, int] = {}
        done: dict[int, _Outcome[Answer]] = {}
        warned: dict[Any, Any] = {}
        number = first = 0
        ended, failure, most = False, None, MOST_AHEAD * len(self._processes)
        while True:
            while not ended and self._idle and number - first < most and (number == first or is_ready()):
                try:
                    place, lines = next(chunks)
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
            spoken = wait_for_readable(list(self._processes), SECONDS_BETWEEN_LOOKS if looks else LOOK)
            working = {self._processes[each].pid or 0: each for each in given if each not in spoken}
            if hanging := silence.look(working):
                raise self._hung(working[hanging[0]])
            for connection in (each for each in self._processes if each in spoken):
                outcome = self._receive(connection)
                silence.heard(self._processes[connection].pid or 0)
                ended = ended or outcome.error is not None  # later chunks are not needed
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
        """Kills all workers at once, even while they are busy."""
        for process in self._processes.values():
            process.kill()
        for connection, process in self._processes.items():
            end(process)
            connection.close()

    def _send(self, connection: Connection, chunk: tuple[list[Line], int]) -> None:
        try:
            connection.send(chunk)
        except BlockingIOError:
            raise self._hung(connection) from None
        except OSError:  # it has died: its last message or its exit status is read next
            pass

    def _receive(self, connection: Connection) -> _Outcome[Answer]:
        try:
            return connection.recv()
        except BlockingIOError:
            raise self._hung(connection) from None
        except (EOFError, OSError):
            raise self._death(connection) from None

    def _hung(self, connection: Connection) -> PellucidError:
        process = self._processes[connection]
        end(process, 0.0)
        return DeadWorkerError(
            f"{process.name} (process {process.pid}) gave no sign of life for {self._silence:g} s and was ended",
            "give the command again; where it happens again, look whether the disk or the system stops the process",
        )

    def _death(self, connection: Connection) -> PellucidError:
        process = self._processes[connection]
        end(process)  # sets its exit code
        code = process.exitcode or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        memory = ", which is what the system does where memory runs out" if code == -9 else ""
        return DeadWorkerError(f"{process.name} (process {process.pid}) {how}{memory}", self._hint)


def _work(
    connection: Connection, ready: Callable[[], Answering[Line, Answer]], copies: Sequence[Connection],
    parent: int | None,
) -> None:  # fmt: skip
    """Answers chunks until the parent closes the connection."""
    if parent is not None and hasattr(signal, "SIGKILL"):  # a stopped process does not notice the closed connection
        stop_with_parent(parent, signal.SIGKILL)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for copy in copies:
        copy.close()
    # A worker must hold no copies of stdin and stdout, so that they close when the parent closes them.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    try:
        answer = ready()
    except Exception as error:
        answer = partial(_refuse, error)  # reported as the answer to the first chunk
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
    """Returns the error, or a RuntimeError with its message if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@contextmanager
def _unheard() -> Iterator[None]:
    """Blocks signals while processes start, until they ignore the signals; the parent receives its signals later."""
    with warnings.catch_warnings():
        # The warning about a fork with threads: `run_workers` ensures that no thread is computing.
        warnings.simplefilter("ignore", DeprecationWarning)
        if sys.platform == "win32":
            yield
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def can_fork() -> bool:
    """Returns True if this process has only one thread, so that a fork of it is complete and can compute.

    Forked workers start at once, and share the memory of the weights. Outside Linux, system libraries start threads of
    their own.
    """
    if sys.platform != "linux":
        return False
    # numpy's BLAS library starts threads at import, and ends them before a fork.
    if (process := os.fork()) == 0:
        os._exit(0)
    reap(process)
    return len(os.listdir("/proc/self/task")) == 1
