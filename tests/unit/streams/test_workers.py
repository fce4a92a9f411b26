"""Processes that answer chunks side by side: their order, their errors, their deaths, and what is left of them."""

import errno
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest
import torch

from pellucid import waits
from pellucid import workers as module
from pellucid.errors import ConfigError, DataError, PellucidError
from pellucid.streams.workers import run_workers
from pellucid.workers import MOST_AHEAD, DeadWorkerError, Workers

STRETCHES = [(10 * n, [f"line {10 * n + i}" for i in range(10)]) for n in range(12)]


def turned(lines: list[str], place: int) -> list[str]:
    """An answer that hangs on the line and its place; the first chunk takes longest."""
    time.sleep(0.1 if place == 0 else 0)
    return [f"{place + i}:{line[::-1]}" for i, line in enumerate(lines)]


def ready() -> Callable[[list[str], int], list[str]]:
    return turned


def at_once() -> bool:
    return True


def answers(
    answer: Callable[[list[str], int], Sequence[str]],
    chunks: Iterator[tuple[int, list[str]]] | None = None,
    is_ready: Callable[[], bool] = at_once,
    count: int = 2,
) -> Iterator[Sequence[str]]:
    """What so many workers answer, which are gone afterwards."""
    running: Workers[str, str] = Workers(count, lambda: answer, "fork")
    try:
        yield from running.answer_chunks(iter(STRETCHES) if chunks is None else chunks, is_ready)
    finally:
        running.stop()
        assert multiprocessing.active_children() == []


EXPECTED = [turned(lines, place) for place, lines in STRETCHES[1:]]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_answers_come_in_the_order_of_the_stretches(method: Literal["fork", "spawn"]) -> None:
    running: Workers[str, str] = Workers(3, ready, method)
    try:
        assert list(running.answer_chunks(iter(STRETCHES), at_once))[1:] == EXPECTED
    finally:
        running.stop()


def test_no_more_is_taken_than_is_bounded() -> None:
    """While the first chunk is being answered the others run ahead, but not to the end of a large input."""
    taken: list[int] = []

    def chunks() -> Iterator[tuple[int, list[str]]]:
        for place, lines in ((10 * n, ["a"]) for n in range(100)):
            taken.append(place)
            yield place, lines

    def slow_at_first(lines: list[str], place: int) -> list[str]:
        time.sleep(0.3 if place == 0 else 0)
        return lines

    found = answers(slow_at_first, chunks())
    next(found)
    assert 2 < len(taken) <= 2 * MOST_AHEAD
    assert len(list(found)) == 99


def test_an_error_comes_after_the_answers_before_it_and_says_the_same() -> None:
    def refusing(lines: list[str], place: int) -> list[str]:
        if place == 30:
            raise DataError("line 31 is wrong", "mend it", 7)
        return turned(lines, place)

    found = answers(refusing)
    assert [next(found) for _ in range(3)][1:] == EXPECTED[:2]
    with pytest.raises(DataError) as raised:
        next(found)
    assert str(raised.value) == "line 31 is wrong"
    assert (raised.value.hint, raised.value.exit_status) == ("mend it", 7)
    assert "in refusing" in raised.value.__notes__[0]  # what --debug shows


def test_what_cannot_be_sent_is_told_in_words() -> None:
    class Local(Exception):
        """No other process finds its class."""

    def refusing(lines: list[str], place: int) -> list[str]:
        raise Local("of this test")

    with pytest.raises(RuntimeError, match=r"^Local: of this test"):
        list(answers(refusing))


def test_a_source_that_fails_is_answered_up_to_there() -> None:
    def chunks() -> Iterator[tuple[int, list[str]]]:
        yield from STRETCHES[:4]
        raise DataError("line 41 is not UTF-8")

    found = answers(turned, chunks())
    assert [next(found) for _ in range(4)][1:] == EXPECTED[:3]
    with pytest.raises(DataError, match="line 41"):
        next(found)


def test_a_model_that_cannot_be_opened_there_is_told_as_here() -> None:
    def unready() -> Callable[[list[str], int], list[str]]:
        raise DataError("no such model")

    running: Workers[str, str] = Workers(2, unready, "fork")
    try:
        with pytest.raises(DataError, match=r"^no such model"):
            list(running.answer_chunks(iter(STRETCHES), at_once))
    finally:
        running.stop()


def test_a_worker_that_is_killed_ends_all() -> None:
    def dying(lines: list[str], place: int) -> list[str]:
        if place == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        return turned(lines, place)

    told = (
        r"^worker \d of 3 \(process \d+\) was killed by SIGKILL, which is what the system does where memory runs out$"
    )
    with pytest.raises(PellucidError, match=told) as raised:
        list(answers(dying, count=3))
    assert raised.value.exit_status == 1


def test_a_worker_that_leaves_is_told_with_its_status() -> None:
    def leaving(lines: list[str], place: int) -> list[str]:
        os._exit(3)

    with pytest.raises(PellucidError, match=r"ended with status 3$"):
        list(answers(leaving))


def test_what_asks_to_stop_is_for_the_parent() -> None:
    def asked(lines: list[str], place: int) -> list[str]:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        return turned(lines, place)

    assert list(answers(asked))[1:] == EXPECTED


def test_a_warning_comes_out_here_and_once() -> None:
    def warning(lines: list[str], place: int) -> list[str]:
        warnings.warn("a line is long", stacklevel=1)
        return lines

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        list(answers(warning))
    assert [str(each.message) for each in told] == ["a line is long"]


def test_answers_go_out_while_the_next_line_is_waited_for() -> None:
    """Else who writes a line and waits for its answer would wait for ever."""
    written: list[Sequence[str]] = []

    def chunks() -> Iterator[tuple[int, list[str]]]:
        for place in range(3):
            assert len(written) == place, "the one before is not answered yet"
            yield place, [f"{place}"]

    for found in answers(lambda lines, _: lines, chunks(), is_ready=lambda: False):
        written.append(found)
    assert written == [["0"], ["1"], ["2"]]


@pytest.mark.slow
def test_a_worker_ends_when_its_parent_is_gone(tmp_path: Path) -> None:
    """No copy of the parent's end is left open in a sibling, which would keep both waiting."""
    if (parent := os.fork()) == 0:
        try:
            running: Workers[str, str] = Workers(2, ready, "fork")
            (tmp_path / "pids").write_text(" ".join(map(str, running.pids)), encoding="utf-8")
        finally:
            os._exit(0)
    os.waitpid(parent, 0)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text(encoding="utf-8").split()]
    assert len(pids) == 2
    for _ in range(500):
        if not any(is_alive(pid) for pid in pids):
            return
        time.sleep(0.01)
    raise AssertionError(f"still there: {pids}")


def is_alive(pid: int) -> bool:
    """Whether a process is there and computes; one that has ended may wait to be looked after."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_workers_share_a_processor_and_no_other_device() -> None:
    class Elsewhere:
        device = torch.device("meta")

    refused = r"^`workers=2` share the cores of a CPU, but the model is on meta$"
    with pytest.raises(ConfigError, match=refused), run_workers(2, 1, Elsewhere(), Elsewhere, {}):  # type: ignore[arg-type]
        pass


def test_a_process_with_threads_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "listdir", lambda path: ["1", "2"])
    assert not module.can_fork()
    monkeypatch.setattr(module.sys, "platform", "darwin")
    assert not module.can_fork()


@pytest.fixture
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent looks for signs of life every 0.05 seconds."""
    for place in (waits, module):
        monkeypatch.setattr(place, "LOOK", 0.05)


@pytest.mark.usefixtures("looking_often")
def test_a_worker_that_hangs_is_ended_and_told() -> None:
    """Stopped, it uses no processor time, while the other one answers."""

    def stopping(lines: list[str], place: int) -> list[str]:
        if place == 20:
            os.kill(os.getpid(), signal.SIGSTOP)
        return lines

    running: Workers[str, str] = Workers(2, lambda: stopping, "fork", silence=0.2)
    try:
        with pytest.raises(
            DeadWorkerError, match=r"worker . of 2 \(process \d+\) gave no sign of life for 0.2 s and was ended"
        ):
            list(running.answer_chunks(iter(STRETCHES), at_once))
    finally:
        running.stop()
    assert multiprocessing.active_children() == []


@pytest.mark.slow
@pytest.mark.usefixtures("looking_often")
def test_a_worker_that_is_slow_is_waited_for() -> None:
    """It takes several times as long as a worker may be silent, and computes all the time."""

    def slow(lines: list[str], place: int) -> list[str]:
        until = time.process_time() + 0.6
        while time.process_time() < until:
            pass
        return lines

    running: Workers[str, str] = Workers(1, lambda: slow, "fork", silence=0.2)
    try:
        assert len(list(running.answer_chunks(iter(STRETCHES[:2]), at_once))) == 2
    finally:
        running.stop()


@pytest.mark.usefixtures("looking_often")
@pytest.mark.parametrize("size", [10, 1 << 20])
def test_a_worker_that_takes_nothing_is_not_waited_for(size: int) -> None:
    """It is stopped before it has a chunk, of which a long one does not fit into the pipe."""
    running: Workers[str, str] = Workers(1, ready, "fork", silence=0.2)
    try:
        os.kill(running.pids[0], signal.SIGSTOP)
        with pytest.raises(DeadWorkerError, match="no sign of life"):
            list(running.answer_chunks(iter([(0, ["x" * size])]), at_once))
    finally:
        running.stop()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the processes in /proc")
def test_a_stopped_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    source, end = os.pipe()
    if (parent := os.fork()) == 0:
        running: Workers[str, str] = Workers(2, ready, "fork")
        list(running.answer_chunks(iter(STRETCHES), at_once))
        for pid in running.pids:
            os.kill(pid, signal.SIGSTOP)
        os.write(end, " ".join(map(str, running.pids)).encode())
        time.sleep(60)
        os._exit(0)
    os.close(end)
    pids = [int(pid) for pid in os.read(source, 100).split()]
    os.close(source)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    until = time.monotonic() + 20
    while any(map(waits.is_running, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(waits.is_running, pids))


def test_workers_that_cannot_be_started_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where too many files are open: those that were started are ended."""
    context, made = multiprocessing.get_context("fork"), []

    def pipe() -> object:
        made.append(1)
        if len(made) == 2:
            raise OSError(errno.EMFILE, "Too many open files")
        return multiprocessing.Pipe()

    monkeypatch.setattr(context, "Pipe", pipe)
    with pytest.raises(PellucidError, match="3 workers cannot be started: Too many open files") as error:
        Workers(3, ready, "fork")
    assert "ulimit -n" in error.value.hint
    assert multiprocessing.active_children() == []
