"""Processes that answer stretches side by side: their order, their errors, their deaths, and what is left of them."""

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

from pellucid import workers as module
from pellucid.errors import ConfigError, DataError, PellucidError
from pellucid.streams.workers import answering_by
from pellucid.workers import MOST_AHEAD, Workers

STRETCHES = [(10 * n, [f"line {10 * n + i}" for i in range(10)]) for n in range(12)]


def turned(lines: list[str], place: int) -> list[str]:
    """An answer that hangs on the line and its place; the first stretch takes longest."""
    time.sleep(0.1 if place == 0 else 0)
    return [f"{place + i}:{line[::-1]}" for i, line in enumerate(lines)]


def ready() -> Callable[[list[str], int], list[str]]:
    return turned


def at_once() -> bool:
    return True


def answers(
    answer: Callable[[list[str], int], Sequence[str]],
    stretches: Iterator[tuple[int, list[str]]] | None = None,
    is_ready: Callable[[], bool] = at_once,
    count: int = 2,
) -> Iterator[Sequence[str]]:
    """What so many workers answer, which are gone afterwards."""
    running: Workers[str, str] = Workers(count, lambda: answer, "fork")
    try:
        yield from running.answered(iter(STRETCHES) if stretches is None else stretches, is_ready)
    finally:
        running.stop()
        assert multiprocessing.active_children() == []


EXPECTED = [turned(lines, place) for place, lines in STRETCHES[1:]]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_answers_come_in_the_order_of_the_stretches(method: Literal["fork", "spawn"]) -> None:
    running: Workers[str, str] = Workers(3, ready, method)
    try:
        assert list(running.answered(iter(STRETCHES), at_once))[1:] == EXPECTED
    finally:
        running.stop()


def test_no_more_is_taken_than_is_bounded() -> None:
    """While the first stretch is being answered the others run ahead, but not to the end of a large input."""
    taken: list[int] = []

    def stretches() -> Iterator[tuple[int, list[str]]]:
        for place, lines in ((10 * n, ["a"]) for n in range(100)):
            taken.append(place)
            yield place, lines

    def slow_at_first(lines: list[str], place: int) -> list[str]:
        time.sleep(0.3 if place == 0 else 0)
        return lines

    found = answers(slow_at_first, stretches())
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
    def stretches() -> Iterator[tuple[int, list[str]]]:
        yield from STRETCHES[:4]
        raise DataError("line 41 is not UTF-8")

    found = answers(turned, stretches())
    assert [next(found) for _ in range(4)][1:] == EXPECTED[:3]
    with pytest.raises(DataError, match="line 41"):
        next(found)


def test_a_model_that_cannot_be_opened_there_is_told_as_here() -> None:
    def unready() -> Callable[[list[str], int], list[str]]:
        raise DataError("no such model")

    running: Workers[str, str] = Workers(2, unready, "fork")
    try:
        with pytest.raises(DataError, match=r"^no such model"):
            list(running.answered(iter(STRETCHES), at_once))
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

    def stretches() -> Iterator[tuple[int, list[str]]]:
        for place in range(3):
            assert len(written) == place, "the one before is not answered yet"
            yield place, [f"{place}"]

    for found in answers(lambda lines, _: lines, stretches(), is_ready=lambda: False):
        written.append(found)
    assert written == [["0"], ["1"], ["2"]]


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

    refused = r"^`workers=2` share the cores of a processor among them, and the model is on meta$"
    with pytest.raises(ConfigError, match=refused), answering_by(2, 1, Elsewhere(), Elsewhere, {}):  # type: ignore[arg-type]
        pass


def test_a_process_with_threads_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "listdir", lambda path: ["1", "2"])
    assert not module.may_be_copied()
    monkeypatch.setattr(module.sys, "platform", "darwin")
    assert not module.may_be_copied()
