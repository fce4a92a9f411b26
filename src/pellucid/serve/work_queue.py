"""The queue of a server: one thread computes the sentences of all requests, in turn and in common batches.

A request has a *ticket*. Its sentences are taken in turn with those of other tickets, so that a long text never stands
before short ones, and the work of a ticket that was cancelled is dropped. The queue is bounded in tokens.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pellucid.config import DecodeConfig
from pellucid.decoding.hypothesis import Hypothesis

if TYPE_CHECKING:
    from pellucid.decoding.beam import SearchFunction
    from pellucid.decoding.constraints import Constraints
    from pellucid.engines.engine import Engine

R = TypeVar("R")

BATCH_SECONDS = 0.4
"""The time of a batch: a new request waits for at most one."""
FEWEST_TOKENS, MOST_TOKENS = 192, 8192
"""The bounds of the source tokens of a batch; a longer sentence is a batch of its own."""
SLOWNESS = 0.3
"""The weight of the newest batch in the measured pace."""


class QueueFullError(Exception):
    """Is raised for a request that the queue has no room for. `seconds`: the time until it has room, estimated."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the queue is full for about {seconds:.0f} s")
        self.seconds: float = seconds


class CancelledWorkError(Exception):
    """Is raised in the thread of a request that was cancelled, or whose server ends."""


class _Call:
    """A function that the thread of the queue calls."""

    def __init__(self, function: Callable[[], Any], tokens: int) -> None:
        self.function = function
        self.tokens = tokens
        self.future: Future[Any] = Future()


class _QueuedSearch:
    """A search of several sources, of which batches take some at a time, the longest first."""

    def __init__(
        self,
        engine: "Engine",
        sources: Sequence[list[int]],
        config: DecodeConfig,
        by: "SearchFunction | None",
        constraints: "Constraints | None",
    ) -> None:
        self.engine, self.sources, self.config, self.by, self.constraints = engine, sources, config, by, constraints
        self.order = sorted(range(len(sources)), key=lambda place: -len(sources[place]))
        self.taken = 0
        self.found: dict[int, list[Hypothesis]] = {}
        self.future: Future[dict[int, list[Hypothesis]]] = Future()

    def fits(self, other: "_QueuedSearch") -> bool:
        """Returns True if both can be in one batch: constraints and custom searches are those of one request."""
        if self is other:
            return True
        alone = (self.by, self.constraints, other.by, other.constraints) != (None,) * 4
        return not alone and self.engine is other.engine and self.config == other.config

    def add(self, place: int, hypotheses: list[Hypothesis]) -> None:
        """Adds the result of a source; the last one ends the search."""
        self.found[place] = hypotheses
        if len(self.found) == len(self.sources):
            with suppress(InvalidStateError):  # the request was cancelled
                self.future.set_result(self.found)


class Ticket:
    """The place of a request in the queue, used by one thread at a time."""

    def __init__(self, queue: "WorkQueue") -> None:
        self._queue = queue
        self.job: Any = None  # a _Call or a _QueuedSearch
        self.waiting: int = 0
        """The tokens that were admitted and are not computed yet."""
        self.is_cancelled: bool = False

    def search(
        self,
        engine: "Engine",
        sources: Sequence[list[int]],
        config: DecodeConfig,
        by: "SearchFunction | None" = None,
        constraints: "Constraints | None" = None,
    ) -> dict[int, list[Hypothesis]]:
        """Returns the hypotheses of each source, by its index. Raises CancelledWorkError."""
        if not sources:
            return {}
        return self._queue.compute(self, _QueuedSearch(engine, sources, config, by, constraints))

    def call(self, function: Callable[[], R], tokens: int = 0) -> R:
        """Returns the result of a function that the thread of the queue calls. Raises CancelledWorkError."""
        found: R = self._queue.compute(self, _Call(function, tokens))
        return found

    def cancel(self) -> None:
        """Drops the work of the request; its thread gets CancelledWorkError."""
        self._queue.cancel(self)


class WorkQueue:
    """The queue of a server, with its thread.

    Args:
        most_tokens: the source tokens of all requests at most. A request that has more is admitted if no other waits.
    """

    def __init__(self, most_tokens: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most_tokens: int = most_tokens
        self._clock = clock
        self._changed = threading.Condition()
        self._turns: deque[Ticket] = deque()
        self._waiting = 0
        self._pace = 0.0
        self._ended = False
        self._thread: threading.Thread | None = None

    @property
    def waiting_tokens(self) -> int:
        """The tokens that were admitted and are not computed yet."""
        return self._waiting

    @contextmanager
    def admit(self, tokens: int, ticket: Ticket | None = None) -> Iterator[Ticket]:
        """Yields the ticket of a request with this number of source tokens.

        Raises QueueFullError if others wait and there is no room for it, CancelledWorkError if the queue has ended.
        """
        ticket = ticket or Ticket(self)
        with self._changed:
            if self._ended:
                raise CancelledWorkError
            if self._waiting and self._waiting + tokens > self.most_tokens:
                raise QueueFullError(self.estimate_seconds())
            self._waiting += tokens
            ticket.waiting += tokens
        try:
            yield ticket
        finally:
            with self._changed:
                self._waiting -= ticket.waiting
                ticket.waiting = 0

    def estimate_seconds(self) -> float:
        """Returns the time until the work that waits now is done, by the measured pace; from 1 to 120 s."""
        return min(120.0, max(1.0, self._waiting / self._pace if self._pace else 1.0))

    def compute(self, ticket: Ticket, job: Any) -> Any:
        """Returns the result of a job, in turn with the jobs of other tickets. Raises CancelledWorkError."""
        with self._changed:
            if ticket.is_cancelled or self._ended:
                raise CancelledWorkError
            if self._thread is None:  # not before: a server may fork its processes after it made its application
                self._thread = threading.Thread(target=self._run, name="pellucid-queue", daemon=True)
                self._thread.start()
            ticket.job = job
            self._turns.append(ticket)
            self._changed.notify()
        return job.future.result()

    def cancel(self, ticket: Ticket) -> None:
        """Drops the work of a ticket."""
        with self._changed:
            ticket.is_cancelled = True
            job, ticket.job = ticket.job, None
            if ticket in self._turns:
                self._turns.remove(ticket)
        if job is not None:
            _fail(job.future, CancelledWorkError())

    def end(self) -> None:
        """Ends the thread after the batch that it computes, and drops all other work."""
        with self._changed:
            self._ended = True
            waiting, self._turns = list(self._turns), deque()
            self._changed.notify()
        for ticket in waiting:
            self.cancel(ticket)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._turns and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                batch = self._pick()
            begun = self._clock()
            if isinstance(batch, _Call):
                _settle(batch.future, batch.function)
                continue
            self._search(batch)
            tokens = sum(len(job.sources[place]) for _, job, place in batch)
            pace = tokens / max(self._clock() - begun, 1e-6)
            with self._changed:
                self._pace = pace if not self._pace else (1 - SLOWNESS) * self._pace + SLOWNESS * pace
                for ticket, job, place in batch:
                    done = min(ticket.waiting, len(job.sources[place]))
                    ticket.waiting -= done
                    self._waiting -= done

    def _pick(self) -> _Call | list[tuple[Ticket, _QueuedSearch, int]]:
        """Returns the next batch: a source of each ticket in turn, as long as there is room; or a call."""
        first = self._turns[0].job
        assert first is not None, "a ticket in turn has a job"
        if isinstance(first, _Call):
            self._turns.popleft().job = None
            return first
        most = min(MOST_TOKENS, max(FEWEST_TOKENS, int(self._pace * BATCH_SECONDS)))
        picked: list[tuple[Ticket, _QueuedSearch, int]] = []
        tokens, others, turns = 0, list[Ticket](), self._turns
        while turns:
            ticket = turns.popleft()
            job = ticket.job
            if not isinstance(job, _QueuedSearch) or not first.fits(job):
                others.append(ticket)
                continue
            place = job.order[job.taken]
            if picked and tokens + len(job.sources[place]) > most:
                turns.appendleft(ticket)
                break
            picked.append((ticket, job, place))
            tokens += len(job.sources[place])
            job.taken += 1
            if job.taken < len(job.order):
                turns.append(ticket)
            else:
                ticket.job = None
        self._turns = deque([*others, *turns])
        return picked

    def _search(self, batch: Sequence[tuple[Ticket, _QueuedSearch, int]]) -> None:
        """Computes a batch. If it fails, each source is computed by itself, so that only its request fails."""
        left = list(range(len(batch)))
        try:
            for number, hypotheses in self._find(batch):
                batch[number][1].add(batch[number][2], hypotheses)
                left.remove(number)
        except Exception as error:
            if len(batch) == 1:
                _fail(batch[0][1].future, error)
                return
            for number in left:
                self._search([batch[number]])

    def _find(self, batch: Sequence[tuple[Ticket, _QueuedSearch, int]]) -> Iterator[tuple[int, list[Hypothesis]]]:
        first = batch[0][1]
        places = [place for _, _, place in batch]
        constraints = first.constraints.select(places) if first.constraints is not None else None
        sources = [job.sources[place] for _, job, place in batch]
        yield from first.engine.search(sources, first.config, first.by, constraints)


def _settle(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        found = function()
    except BaseException as error:  # the thread of the request raises it
        _fail(future, error)
    else:
        with suppress(InvalidStateError):
            future.set_result(found)


def _fail(future: Future[Any], error: BaseException) -> None:
    with suppress(InvalidStateError):  # it was cancelled
        future.set_exception(error)
