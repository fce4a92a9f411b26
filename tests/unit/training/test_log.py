"""The metrics log: one JSON object a line, without gaps or doubles after a resumption."""

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.training.log import RunLog


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


def test_there_may_be_nothing_to_resume(tmp_path: Path) -> None:
    RunLog(tmp_path, 10, quiet=True).resume_at(0)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_the_reader_is_told_on_stderr_to_the_letter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = RunLog(tmp_path, 10)
    text = "[red]not markup[/red] :dog: " + "long " * 40
    log.say(text)
    log.progress(1234, "loss 1.0")
    log.close()
    assert capsys.readouterr() == ("", f"{text}\nstep 1,234: loss 1.0\n")


def test_quiet_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = RunLog(tmp_path, 10, quiet=True)
    log.say("x")
    log.progress(1, "x")
    log.close()
    assert capsys.readouterr() == ("", "")


class Board:
    """Stands in for TensorBoard's writer."""

    def __init__(self) -> None:
        self.scalars: list[Any] = []
        self.closed = False

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def close(self) -> None:
        self.closed = True


def test_tensorboard_gets_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    board = Board()
    monkeypatch.setattr("pellucid.training.log._tensorboard", lambda folder: board)
    log = RunLog(tmp_path, 10)
    log.write("train", 7, loss=0.5, tokens=9, bleu=None, text="x")
    log.close()
    assert board.scalars == [("train/loss", 0.5, 7), ("train/tokens", 9, 7)]
    assert board.closed
    assert capsys.readouterr().err == f"TensorBoard events go to {tmp_path / 'tensorboard'}\n"
    RunLog(tmp_path, 10, quiet=True)
    assert capsys.readouterr().err == ""
