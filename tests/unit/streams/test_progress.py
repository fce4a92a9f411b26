"""How far a stream has come: lines now and then, with the rate and the time left."""

import pytest

from pellucid.streams.progress import SECONDS_BETWEEN_LINES, LineProgress


class Clock:
    """A clock that a test turns."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with LineProgress(shown=True, clock=clock) as progress:
        progress.begin(1000, 0.1)
        clock.now += SECONDS_BETWEEN_LINES / 2
        progress.update(2500, 0.2)
        assert capsys.readouterr().err == ""
        clock.now += SECONDS_BETWEEN_LINES / 2
        progress.update(4000, 0.4)
        assert capsys.readouterr().err == "4,000 lines, 100 lines/s, 40 % of the input, 1:00 left\n"
        clock.now += 3600
        progress.update(7630, None)
        assert capsys.readouterr().err == "7,630 lines, 2 lines/s\n"
        clock.now += 3570
        progress.update(20_000, 0.5)
        assert capsys.readouterr().err == "20,000 lines, 3 lines/s, 50 % of the input, 2:30:00 left\n"


def test_nothing_where_nobody_waits(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with LineProgress(shown=False, clock=clock) as progress:
        progress.begin(0, None)
        clock.now += 1000
        progress.update(10, None)
    assert capsys.readouterr().err == ""


def test_the_bar_fits_into_eighty_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    clock = Clock()
    with LineProgress(shown=True, clock=clock) as progress:
        progress.begin(0, 0.0)
        clock.now += 100_000
        progress.update(123_456_789, 0.25)
    assert "123,456,789 lines, 1,235 lines/s, 25 % of the input, 83:20:00 left" in capsys.readouterr().err
