"""Lines as they arrive: those that are there at once, and no more read ahead than there is room for."""

import threading
from collections.abc import Iterator

import pytest

from pellucid.streams import background_reader
from pellucid.streams.background_reader import Arrivals


def test_all_lines_come_in_their_order() -> None:
    lines = [b"%d" % number for number in range(10_000)]
    found, source = [], Arrivals(iter(lines))
    while taken := source.take(77):
        assert len(taken) <= 77
        found += taken
    assert found == lines
    assert source.take(1) == []


def test_a_line_is_given_before_the_next_is_there() -> None:
    answered = threading.Event()

    def lines() -> Iterator[bytes]:
        yield b"question"
        assert answered.wait(30), "whoever asked got no answer"
        yield b"another"

    source = Arrivals(lines())
    assert source.take(1000) == [b"question"]
    answered.set()
    assert source.take(1000) == [b"another"]
    assert source.take(1000) == []


def test_what_is_wrong_is_raised_after_the_lines_before_it() -> None:
    def lines() -> Iterator[bytes]:
        yield b"a"
        raise ZeroDivisionError

    source = Arrivals(lines())
    assert source.take(10) == [b"a"]
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            source.take(10)


@pytest.mark.parametrize(("most_lines", "most_bytes", "waiting"), [(5, 1 << 20, 5), (1000, 50, 5)])
def test_it_reads_no_further_ahead_than_there_is_room(
    monkeypatch: pytest.MonkeyPatch, most_lines: int, most_bytes: int, waiting: int
) -> None:
    monkeypatch.setattr(background_reader, "MOST_WAITING_LINES", most_lines)
    monkeypatch.setattr(background_reader, "MOST_WAITING_BYTES", most_bytes)
    read, reached = 0, threading.Event()

    def lines() -> Iterator[bytes]:
        nonlocal read
        for _ in range(100):
            read += 1
            if read > waiting:
                reached.set()
            yield b"x" * 10

    source = Arrivals(lines())
    assert reached.wait(30)
    while taken := source.take(1):
        assert taken == [b"x" * 10]
    assert read == 100
