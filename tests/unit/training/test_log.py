"""The metrics log: one JSON object a line, without gaps or doubles after a resumption."""

import errno
import io
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pellucid.training.log import RunLog, _Bar


def events(folder: Path) -> list[tuple[str, int]]:
    tables = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(table["event"], table["step"]) for table in tables]


def written(folder: Path, *lines: tuple[str, int]) -> RunLog:
    log = RunLog(folder, total_steps=10, quiet=True)
    for event, step in lines:
        log.write(event, step, loss=1.5)
    return log


def test_a_line_is_a_json_object(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 10, quiet=True)
    log.write("train", 3, loss=0.25, text="h\u2028i", bleu=None)
    (line,) = (tmp_path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    assert line.endswith(b"\n")
    assert json.loads(line) == {"event": "train", "step": 3, "loss": 0.25, "text": "h\u2028i", "bleu": None}


def test_resuming_drops_what_comes_again(tmp_path: Path) -> None:
    log = written(tmp_path, ("train", 2), ("validation", 4), ("train", 4), ("train", 6), ("validation", 8))
    log.resume_at(4)
    assert events(tmp_path) == [("train", 2), ("validation", 4), ("train", 4)]
    log.write("train", 6)
    assert events(tmp_path)[-1] == ("train", 6)
    log.resume_at(0)
    assert events(tmp_path) == []


def test_an_average_comes_again_after_the_last_checkpoint(tmp_path: Path) -> None:
    log = written(tmp_path, ("validation", 10), ("average", 10))
    log.resume_at(10)
    assert events(tmp_path) == [("validation", 10)]


@pytest.mark.parametrize("kept", [1, 5, 20, -1])
def test_a_cut_off_last_line_goes(tmp_path: Path, kept: int) -> None:
    log = written(tmp_path, ("train", 1), ("train", 2))
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    first = whole.index(b"\n") + 1
    (tmp_path / "metrics.jsonl").write_bytes(whole[:first] + whole[first:][:kept])
    log.resume_at(5)
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole[:first]


@pytest.mark.parametrize("line", [b"\0\0\0\0\n", b"[1]\n", b"{}\n", b'{"event": "train", "step": null}\n'])
def test_what_is_no_metrics_line_goes(tmp_path: Path, line: bytes) -> None:
    log = written(tmp_path, ("train", 1))
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    (tmp_path / "metrics.jsonl").write_bytes(whole + line)
    log.resume_at(5)
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole


def test_a_log_that_is_whole_is_not_written_again(tmp_path: Path) -> None:
    log = written(tmp_path, ("train", 1), ("train", 2))
    before = (tmp_path / "metrics.jsonl").stat().st_ino
    log.resume_at(2)
    assert (tmp_path / "metrics.jsonl").stat().st_ino == before


class FullDisk:
    """Has metrics.jsonl take so many bytes more, then none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int = errno.ENOSPC) -> None:
        self.room: int | None = None
        self.number = number
        self.open = Path.open
        monkeypatch.setattr(Path, "open", lambda path, mode="r", **kwargs: self.opened(path, mode, **kwargs))

    @staticmethod
    def fail(number: int = errno.ENOSPC) -> None:
        raise OSError(number, os.strerror(number))

    def opened(self, path: Path, mode: str, **kwargs: Any) -> Any:
        file = self.open(path, mode, **kwargs)
        return file if self.room is None or mode != "ab" else _Limited(file, self.room, self.number)


class _Limited:
    def __init__(self, file: Any, room: int, number: int) -> None:
        self.file, self.room, self.number = file, room, number

    def __enter__(self) -> "_Limited":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, data: bytes) -> None:
        self.file.write(data[: self.room])
        FullDisk.fail(self.number)


@pytest.mark.parametrize("room", [0, 7])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_on_a_full_disk_lines_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], room: int, number: int
) -> None:
    """Nothing is lost, nothing is there twice, and no half line stays."""
    log, disk = RunLog(tmp_path, 10), FullDisk(monkeypatch, number)
    log.write("train", 1)
    disk.room = room
    log.write("train", 2)
    log.write("train", 3)
    assert events(tmp_path) == [("train", 1)]
    with pytest.raises(OSError, match=re.escape(os.strerror(number))):
        log.flush()
    disk.room = None
    log.write("train", 4)
    log.flush()
    assert events(tmp_path) == [("train", 1), ("train", 2), ("train", 3), ("train", 4)]
    said = capsys.readouterr().err
    assert said.count("warning") == 1
    start = f"warning: `{tmp_path / 'metrics.jsonl'}` could not be written: {os.strerror(number)}, "
    assert said.startswith(start)
    assert said.endswith(" MB free\n  Training continues, and its lines are kept in memory until disk space is free.\n")


def test_a_disk_that_is_full_again_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, disk = RunLog(tmp_path, 10), FullDisk(monkeypatch)
    for room in (0, None, 0):
        disk.room = room
        log.write("train", 1)
    assert capsys.readouterr().err.count("warning") == 2


def test_no_more_lines_wait_than_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.training.log.MOST_WAITING", 3)
    log, disk = RunLog(tmp_path, 10, quiet=True), FullDisk(monkeypatch)
    disk.room = 0
    for step in range(5):
        log.write("train", step)
    disk.room = None
    log.flush()
    assert events(tmp_path) == [("train", 2), ("train", 3), ("train", 4)]


def test_another_error_is_no_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, disk = RunLog(tmp_path, 10, quiet=True), FullDisk(monkeypatch, errno.EACCES)
    disk.room = 0
    with pytest.raises(PermissionError):
        log.write("train", 1)


def test_there_may_be_nothing_to_resume(tmp_path: Path) -> None:
    RunLog(tmp_path, 10, quiet=True).resume_at(0)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_the_reader_is_told_on_stderr_to_the_letter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = RunLog(tmp_path, 10)
    text = "[red]not markup[/red] :dog: " + "long " * 40
    log.log_line(text)
    log.progress(1234, "loss 1.0")
    log.close()
    assert capsys.readouterr() == ("", f"{text}\nstep 1,234: loss 1.0\n")


def test_quiet_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = RunLog(tmp_path, 10, quiet=True)
    log.log_line("x")
    log.progress(1, "x")
    log.close()
    assert capsys.readouterr() == ("", "")


def test_logging_hears_what_is_said_quiet_or_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, logger="pellucid")
    log = RunLog(tmp_path, 10, quiet=True)
    log.log_line("100 % of it")
    log.log_line("warning: the disk is slow")
    log.progress(1234, "loss 1.0")
    assert caplog.record_tuples == [
        ("pellucid", logging.INFO, "100 % of it"),
        ("pellucid", logging.WARNING, "warning: the disk is slow"),
        ("pellucid", logging.INFO, "step 1,234: loss 1.0"),
    ]
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_without_logging_set_up_a_warning_is_not_printed_twice(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pellucid.training.log import RunLog; "
        "RunLog(Path(sys.argv[1]), 10, quiet=sys.argv[2] == 'quiet').log_line('warning: once')"
    )
    for how, expected in (("quiet", ""), ("loud", "warning: once\n")):
        command = [sys.executable, "-c", code, str(tmp_path), how]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == expected


@pytest.mark.parametrize("width", [60, 80, 99, 100, 120, 200])
@pytest.mark.parametrize("steps", [13_000, 100_000])
def test_the_bar_shows_steps_loss_and_time_left_at_each_width(width: int, steps: int) -> None:
    screen = io.StringIO()
    bar = _Bar(Console(file=screen, width=width, force_terminal=True, legacy_windows=False, color_system=None), steps)
    bar.update(steps // 2, "loss 2.967, 106,834 tokens/s, rate 1.18e-03")
    bar.stop()
    line = re.split(r"[\r\n]", re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", screen.getvalue()))[-2].rstrip()
    assert len(line) <= width
    assert f"step {steps // 2:,} of {steps:,}" in line
    assert "loss 2.967" in line
    assert re.search(r" left -:--:--$| left \d:\d\d:\d\d$", line), line
    assert width < 80 or "106,834 tokens/s" in line
    assert "…" not in line
