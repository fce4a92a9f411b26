"""Signals that ask to stop: an exit status each, a word, and nothing half-made left behind."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from pellucid.cli import main as module
from pellucid.conversion import convert
from pellucid.process import STOP_SIGNALS
from tests.toy_task import reversed_letters, small_arguments, write_pairs
from tests.unit.cli.command_line import CommandLine


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    assert {number: signal.getsignal(number) for number in STOP_SIGNALS} == before


def stop(number: int) -> None:
    """What a shell, a terminal or a supervisor does to a command."""
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "status"), [(number, 128 + number) for number in STOP_SIGNALS])
def test_it_ends_with_the_status_of_its_signal(
    pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int
) -> None:
    monkeypatch.setattr(module, "_run", lambda verb, args: stop(number))
    expected = f"interrupted by {number.name}; run the same command again to redo unsaved work\n"
    outcome = pellucid("recipes")
    assert (outcome.status, outcome.out, outcome.err) == (status, "", expected)


def test_nothing_on_the_way_takes_it_for_a_failure_and_more_signals_change_nothing(
    pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[str] = []

    def verb(name: str, args: list[str]) -> int:
        try:
            stop(signal.SIGHUP)
        except Exception:
            return 0
        finally:
            stop(signal.SIGHUP)
            stop(signal.SIGTERM)
            cleared.append(name)
        return 0

    monkeypatch.setattr(module, "_run", verb)
    assert pellucid("recipes").status == 129
    assert cleared == ["recipes"]


def test_what_was_ignored_stays_ignored(pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def verb(name: str, args: list[str]) -> int:
        stop(signal.SIGHUP)
        return 0

    monkeypatch.setattr(module, "_run", verb)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert pellucid("recipes").status == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_thread_that_gets_no_signals_runs_commands_too(pellucid: CommandLine) -> None:
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(module.main(["recipes"])))
    thread.start()
    thread.join()
    assert statuses == [0]


def test_a_conversion_leaves_nothing(
    pellucid: CommandLine, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(path: Path, *_: object) -> None:
        (path / "model.safetensors").write_bytes(bytes(1000))
        stop(signal.SIGTERM)

    monkeypatch.setattr(convert, "_write", lambda saved, folder, *_: half(folder))
    assert pellucid("convert", finished_run, tmp_path / "new", "--to", "hf").status == 143
    assert list(tmp_path.iterdir()) == []


def test_a_training_says_a_word_before_its_first_step(
    pellucid: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    src, tgt = write_pairs(tmp_path, reversed_letters(50))
    monkeypatch.setattr("pellucid.run.session.prepare", lambda *_, **__: stop(signal.SIGTERM))
    outcome = pellucid(*small_arguments(src, tgt, tmp_path / "run"))
    assert outcome.status == 143
    assert outcome.err.endswith("interrupted by SIGTERM; run the same command again to redo unsaved work\n")


def test_the_handlers_from_before_come_back_after_a_stop(
    pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mine(number: int, frame: FrameType | None) -> None:
        raise AssertionError

    monkeypatch.setattr(module, "_run", lambda verb, args: stop(signal.SIGTERM))
    before = signal.signal(signal.SIGTERM, mine)
    try:
        pellucid("recipes")
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
