"""The queue: turns between requests, common batches, a bound in tokens, cancelled work."""

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pellucid.config import DecodeConfig
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.serve.queued_translator import QueuedTranslator
from pellucid.serve.work_queue import CancelledWorkError, QueueFullError, WorkQueue
from pellucid.tasks.translator import Translator

CONFIG = DecodeConfig()


class Recorder:
    """An engine that records its batches, and answers each source by its reverse; the first batch waits for `go`."""

    def __init__(self) -> None:
        self.batches: list[list[list[int]]] = []
        self.go, self.begun = threading.Event(), threading.Event()
        self.fails_on: int | None = None

    def search(
        self, sources: list[list[int]], config: DecodeConfig, by: Any, constraints: Any
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        self.batches.append([list(source) for source in sources])
        self.begun.set()
        assert self.go.wait(20)
        for place, source in enumerate(sources):
            if self.fails_on in source:
                raise RuntimeError("out of memory")
            yield place, [Hypothesis(source[::-1], 0.0)]


@pytest.fixture
def queue() -> Any:
    made = WorkQueue(100)
    yield made
    made.end()


def search(queue: WorkQueue, engine: Any, sources: list[list[int]], config: DecodeConfig = CONFIG) -> list[list[int]]:
    with queue.admit(sum(map(len, sources))) as ticket:
        found = ticket.search(engine, sources, config)
    return [list(found[place][0].ids) for place in range(len(sources))]


def test_sources_of_several_requests_are_one_batch_in_turn(queue: WorkQueue) -> None:
    engine = Recorder()
    long, short = [[1, n, n] for n in range(2, 20)], [[99]]
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(search, queue, engine, [[0]])
        assert engine.begun.wait(20)
        others = [threads.submit(search, queue, engine, sources) for sources in (long, short)]
        while len(queue._turns) < 2:
            threading.Event().wait(0.001)
        engine.go.set()
        assert first.result() == [[0]]
        assert others[0].result() == [source[::-1] for source in long]
        assert others[1].result() == short
    assert [0] in engine.batches[0]
    assert [99] in engine.batches[1][:2], "a short request is in the next batch, whatever waited before"
    assert queue.waiting_tokens == 0


def test_requests_with_other_settings_are_other_batches(queue: WorkQueue) -> None:
    engine = Recorder()
    engine.go.set()
    with ThreadPoolExecutor(8) as threads:
        found = [threads.submit(search, queue, engine, [[n]], DecodeConfig(beam_size=1 + n % 2)) for n in range(40)]
        assert [each.result() for each in found] == [[[n]] for n in range(40)]
    for batch in engine.batches:
        assert len({source[0] % 2 for source in batch}) == 1


def test_a_source_that_fails_fails_its_request_alone(queue: WorkQueue) -> None:
    engine = Recorder()
    engine.fails_on = 7
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(search, queue, engine, [[0]])
        assert engine.begun.wait(20)
        wrong, right = (threads.submit(search, queue, engine, sources) for sources in ([[1], [7]], [[2], [3]]))
        while len(queue._turns) < 2:
            threading.Event().wait(0.001)
        engine.go.set()
        assert right.result() == [[2], [3]]
        assert first.result() == [[0]]
        with pytest.raises(RuntimeError, match="out of memory"):
            wrong.result()
    assert queue.waiting_tokens == 0


def test_the_bound_is_in_tokens_and_a_single_request_may_exceed_it(queue: WorkQueue) -> None:
    with queue.admit(1000):
        with pytest.raises(QueueFullError) as refused, queue.admit(1):
            pass
        assert 1 <= refused.value.seconds <= 120
    with queue.admit(60), queue.admit(40), pytest.raises(QueueFullError), queue.admit(1):
        pass
    assert queue.waiting_tokens == 0


def test_cancelled_work_is_dropped(queue: WorkQueue) -> None:
    engine = Recorder()
    with ThreadPoolExecutor(2) as threads, queue.admit(3) as ticket:
        first = threads.submit(search, queue, engine, [[0]])
        assert engine.begun.wait(20)
        second = threads.submit(ticket.search, engine, [[1], [2]], CONFIG)  # type: ignore[arg-type]
        while not queue._turns:
            threading.Event().wait(0.001)
        ticket.cancel()
        with pytest.raises(CancelledWorkError):
            second.result()
        engine.go.set()
        assert first.result() == [[0]]
        with pytest.raises(CancelledWorkError):
            ticket.call(lambda: 1)
    assert engine.batches == [[[0]]]


def test_calls_run_in_the_thread_of_the_queue_and_raise_their_errors(queue: WorkQueue) -> None:
    with queue.admit(0) as ticket:
        assert ticket.call(lambda: threading.current_thread().name) == "pellucid-queue"
        with pytest.raises(ZeroDivisionError):
            ticket.call(lambda: 1 // 0)
        assert ticket.search(Recorder(), [], CONFIG) == {}  # type: ignore[arg-type]


def test_the_end_drops_what_waits() -> None:
    queue, engine = WorkQueue(100), Recorder()
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(search, queue, engine, [[0]])
        assert engine.begun.wait(20)
        second = threads.submit(search, queue, engine, [[1]])
        while not queue._turns:
            threading.Event().wait(0.001)
        ending = threads.submit(queue.end)
        with pytest.raises(CancelledWorkError):
            second.result()
        engine.go.set()
        ending.result()
        assert first.result() == [[0]]
    with pytest.raises(CancelledWorkError), queue.admit(1):
        pass


def test_requests_share_what_is_made_of_the_vocabulary(queue: WorkQueue, translator: Translator) -> None:
    with queue.admit(1) as one, queue.admit(1) as other:
        made = [QueuedTranslator(translator, ticket) for ticket in (one, other)]
    assert made[0]._source_guard is made[1]._source_guard is translator._source_guard
    assert made[0]._term_writer is made[1]._term_writer
