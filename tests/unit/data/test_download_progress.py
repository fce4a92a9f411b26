"""The progress of a download: a bar on a terminal, now and then a line elsewhere."""

import io
import sys

import pytest

from pellucid.data.download import show_progress


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("x.tgz") as progress:
        for done in range(0, 60_000_001, 1_000_000):
            progress(done, 60_000_000)
        progress(90_000_000, None)
    assert capsys.readouterr().err == (
        "  x.tgz: 20.0 MB of 60.0 MB\n  x.tgz: 40.0 MB of 60.0 MB\n  x.tgz: 60.0 MB of 60.0 MB\n  x.tgz: 90.0 MB\n"
    )


def test_a_small_file_needs_none(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("x.gz") as progress:
        progress(637_044, 637_044)
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    """What rich takes for a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with show_progress("[b]x.tgz") as progress:
        progress(10_000_000, 40_000_000)
    assert "[b]x.tgz" in screen.getvalue()
    assert "10.0/40.0 MB" in screen.getvalue()
