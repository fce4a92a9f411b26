"""A stopped output is gone on with, and ends in the bytes of one that was not stopped; or begun anew, with a word."""

import io
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.data import chunks
from pellucid.errors import ConfigError, DataError
from pellucid.streams import partial_output
from pellucid.streams.streams import LineStream, open_input, open_output_stream

COMMAND = {"verb": "turn", "model": "a"}
LINES = [f"line {number}" for number in range(300)]


class Stop(BaseException):
    """What stops a command, as a signal does."""


def turned(lines: Iterable[str], place: int) -> list[str]:
    """An answer that hangs on the line and its place."""
    return [f"{place + i}:{line[::-1]}" for i, line in enumerate(lines)]


def stopping_at(place: int) -> Callable[[list[str], int], list[str]]:
    """The same, stopped when it comes there."""

    def answer(lines: list[str], before: int) -> list[str]:
        if before + len(lines) > place:
            raise Stop
        return turned(lines, before)

    return answer


def run(folder: Path, answer: Any = turned, command: dict[str, Any] = COMMAND, **given: Any) -> None:
    stream = LineStream(str(folder / "in"), str(folder / "out"), **given)
    with (
        open_input(stream) as source,
        open_output_stream(stream, source, command=lambda: command, nothing=("", "")) as answers,
    ):
        for place, lines in answers:
            answers.write(answer(lines, place))


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "FEWEST", 3)
    monkeypatch.setattr(chunks, "MOST", 10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return tmp_path


EXPECTED = "".join(f"{line}\n" for line in turned(LINES, 0))


def finished(folder: Path) -> bool:
    """Whether the output is whole, and nothing is beside it."""
    assert (folder / "out").read_text(encoding="utf-8") == EXPECTED
    return sorted(path.name for path in folder.iterdir()) == ["in", "out"]


def test_one_that_is_not_stopped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(folder)
    assert finished(folder)
    assert capsys.readouterr().err == ""


def test_stopped_again_and_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for stop, kept in ((50, 43), (50, 46), (200, 199), (299, 292)):
        with pytest.raises(Stop):
            run(folder, stopping_at(stop))
        assert f"kept {kept} lines in `{folder / 'out.partial'}`; run the same" in capsys.readouterr().err
        assert not (folder / "out").exists()
    run(folder)
    assert finished(folder)
    assert capsys.readouterr().err == f"resuming after line 292: `{folder / 'out.partial'}` has the lines before it\n"


@pytest.mark.parametrize(
    ("change", "said"), [("", "resuming after line 93: "), ("x", "is started over: the input differs")]
)
def test_a_pipe_is_gone_on_with_or_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], change: str, said: str
) -> None:
    def pipe(lines: list[str], answer: Any) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        stream = LineStream("-", str(tmp_path / "out"))
        with (
            open_input(stream) as source,
            open_output_stream(stream, source, command=lambda: COMMAND, nothing=("", "")) as answers,
        ):
            for place, some in answers:
                answers.write(answer(some, place))

    monkeypatch.setattr(chunks, "FEWEST", 1)
    monkeypatch.setattr(chunks, "MOST", 1)
    with pytest.raises(Stop):
        pipe(LINES, stopping_at(93))
    capsys.readouterr()
    changed = [change + line for line in LINES]
    pipe(changed, turned)
    assert said in capsys.readouterr().err
    assert (tmp_path / "out").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in turned(changed, 0))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: (folder / "in").write_text("another\n" * 300), "the input differs"),
        (lambda folder: (folder / "in").write_text("line 0\nline 1\n"), "the input differs"),
        (lambda folder: (folder / "out.partial").write_text("another\n" * 100), "it was changed"),
        (lambda folder: os.truncate(folder / "out.partial", 10), "it was changed"),
        (lambda folder: (folder / "out.partial.json").unlink(), "it has no record"),
        (lambda folder: (folder / "out.partial.json").write_text("{"), "it has no record"),
        (lambda folder: (folder / "out.partial.json").write_text("[" * 100_000), "it has no record"),
    ],
)
def test_what_is_not_its_beginning_is_begun_anew(
    folder: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], object], reason: str
) -> None:
    with pytest.raises(Stop):
        run(folder, stopping_at(100))
    change(folder)
    capsys.readouterr()
    run(folder)
    assert capsys.readouterr().err == f"`{folder / 'out.partial'}` is started over: {reason}\n"
    lines = (folder / "in").read_text(encoding="utf-8").splitlines()
    assert (folder / "out").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in turned(lines, 0))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"command": COMMAND | {"model": "b"}}, "it is from another command with other `model`"),
        (
            {"command": COMMAND | {"model": "b", "beam_size": 3}},
            "it is from another command with other `model` and `beam_size`",
        ),
        ({"on_bad_utf8": "skip"}, "it is from another command with other `on_bad_utf8`"),
        ({"fresh": True}, "a fresh start was requested"),
    ],
)
def test_another_command_begins_anew(
    folder: Path, capsys: pytest.CaptureFixture[str], given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Stop):
        run(folder, stopping_at(100))
    capsys.readouterr()
    run(folder, **given)
    assert capsys.readouterr().err == f"`{folder / 'out.partial'}` is started over: {reason}\n"
    assert finished(folder)


def test_a_command_that_an_earlier_version_recorded_is_gone_on_with(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {**COMMAND, "no_repeat_ngram": 2, "sampling": {"epsilon": 0.1}}
    with pytest.raises(Stop):
        run(folder, stopping_at(100), before)
    capsys.readouterr()
    run(folder, command={**COMMAND, "no_repeat_ngram_size": 2, "sampling": {"epsilon_cutoff": 0.1}})
    assert capsys.readouterr().err.startswith("resuming after line ")
    assert finished(folder)


def test_what_grew_behind_the_end_is_answered_too(folder: Path) -> None:
    with pytest.raises(Stop):
        run(folder, stopping_at(290))
    with (folder / "in").open("a", encoding="utf-8") as file:
        file.write("one more\n")
    run(folder)
    assert (folder / "out").read_text(encoding="utf-8") == EXPECTED + "300:erom eno\n"


def test_a_full_disk_costs_nothing_that_was_recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_output, "SECONDS_BETWEEN_RECORDS", 0.0)
    with pytest.raises(Stop):
        run(folder, stopping_at(100))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(partial_output.os, "fsync", full)
        with pytest.raises(DataError, match=r"^cannot write to `.*out`: No space left on device$") as caught:
            run(folder)
    assert caught.value.exit_status == 1
    run(folder)
    assert finished(folder)


def test_two_processes_do_not_write_one_output(folder: Path) -> None:
    def answer(lines: list[str], place: int) -> list[str]:
        with pytest.raises(ConfigError, match=r"^another process is writing `.*out`$"):
            run(folder)
        return turned(lines, place)

    run(folder, answer)
    assert finished(folder)


def test_a_finished_output_keeps_its_mode_and_its_link(folder: Path) -> None:
    (folder / "real").touch(0o600)
    (folder / "out").symlink_to(folder / "real")
    run(folder)
    assert (folder / "out").is_symlink()
    assert (folder / "real").stat().st_mode & 0o777 == 0o600
    assert (folder / "real").read_text(encoding="utf-8") == EXPECTED


@pytest.mark.slow
@given(st.lists(st.integers(0, 320), max_size=6), st.integers(1, 40), st.integers(1, 40))
def test_wherever_it_is_stopped(tmp_path_factory: pytest.TempPathFactory, stops: list[int], a: int, b: int) -> None:
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "in").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "FEWEST", a)
        patch.setattr(chunks, "MOST", b)
        for stop in stops:
            try:
                run(folder, stopping_at(stop))
            except Stop:
                continue
            assert finished(folder)
        run(folder)
    assert finished(folder)


KILLED = """
import os, signal, sys
from pathlib import Path
from pellucid.streams import partial_output
from pellucid.data import chunks
sys.path.insert(0, sys.argv[1])
from tests.unit.streams.test_partial_output import COMMAND, run, turned

chunks.FEWEST, chunks.MOST = 3, 10
partial_output.SECONDS_BETWEEN_RECORDS = 0.0
left = int(sys.argv[3])
fsync = os.fsync

def killed(handle):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(handle)

os.fsync = killed
run(Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_killed_between_any_two_records(folder: Path) -> None:
    root = Path(__file__).parents[3]
    generator = random.Random(1)
    killed = 0
    for _ in range(6):
        command = [sys.executable, "-c", KILLED, root, folder, str(generator.randrange(1, 40))]
        done = subprocess.run(command, check=False, capture_output=True)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        killed += done.returncode != 0
        if done.returncode == 0:
            assert finished(folder)
            (folder / "out").unlink()
    assert killed
    run(folder)
    assert finished(folder)


def test_a_manifest_says_what_it_is_of(folder: Path) -> None:
    with pytest.raises(Stop):
        run(folder, stopping_at(100))
    table = json.loads((folder / "out.partial.json").read_text(encoding="utf-8"))
    assert table["format"] == "pellucid-partial/1"
    assert table["lines"] == (folder / "out.partial").read_bytes().count(b"\n") == 93
    assert table["bytes"] == (folder / "out.partial").stat().st_size
    assert table["command"]["verb"] == "turn"
