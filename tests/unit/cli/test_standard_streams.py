"""Standard streams that are closed, full, or speak another encoding: no command dies of them, nor mixes them up."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.cli.main import main


def run(*arguments: object, closed: tuple[int, ...] = ()) -> tuple[int, bytes, bytes]:
    """Runs `pellucid ARGUMENTS` with some of its standard streams closed; returns status, output and complaint."""
    done = subprocess.run(
        [sys.executable, "-m", "pellucid", *map(str, arguments)], capture_output=True, timeout=120, check=False,
        preexec_fn=lambda: [os.close(number) for number in closed],
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_no_warning_gets_among_the_lines_where_standard_error_is_closed(finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a " * 300 + "\n", encoding="utf-8")
    options = ("--input", tmp_path / "in", "--max-length", "3", "--device", "cpu")
    status, out, _ = run("translate", finished_run, *options, closed=(2,))
    assert (status, out.count(b"\n"), b"warning" in out) == (0, 1, False)


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param((0,), marks=pytest.mark.slow),
        pytest.param((1,), marks=pytest.mark.slow),
        pytest.param((2,), marks=pytest.mark.slow),
        (0, 1, 2),
    ],
)
def test_a_closed_stream_is_no_error(closed: tuple[int, ...], tmp_path: Path) -> None:
    status, out, err = run("recipes", closed=closed)
    assert (status, err) == (0, b"")
    assert (out == b"") == (1 in closed)
    status, out, err = run("recipes", "nope", closed=closed)
    assert (status, out) == (2, b"")
    assert err.startswith(b"error: no recipe `nope`") != (2 in closed)


@pytest.mark.slow
def test_a_closed_standard_input_is_an_empty_one(finished_run: Path) -> None:
    assert run("translate", finished_run, "--device", "cpu", closed=(0,)) == (0, b"", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("arguments", [["recipes"], ["recipes", "default"], ["--help"], ["translate", "--help"]])
def test_a_full_standard_output_is_a_failure_in_a_sentence(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pellucid", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == (
        "error: cannot write to standard output: No space left on device\n\nhint: free disk space, or write elsewhere\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_standard_error_loses_its_words_and_nothing_else(finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a " * 300 + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "pellucid", "translate", finished_run, "--input", tmp_path / "in"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, check=False)
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)


@pytest.mark.parametrize(
    "encoding",
    [
        pytest.param("cp949", marks=pytest.mark.slow),
        pytest.param("latin-1", marks=pytest.mark.slow),
        "ascii",
        pytest.param("utf-16", marks=pytest.mark.slow),
    ],
)
def test_no_character_kills_a_report(encoding: str, tmp_path: Path) -> None:
    for name, word in (("a", "안녕 €"), ("b", "für ☃")):
        (tmp_path / name).write_text(f"{word}\n" * 30, encoding="utf-8")
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "pellucid", "doctor", "--src", "a", "--tgt", "b"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode in (0, 1)
    assert done.stderr == b""
    assert "30 pairs" in done.stdout.decode(encoding)


@pytest.mark.slow
def test_what_a_recipe_is_copied_as_does_not_depend_on_the_terminal() -> None:
    copies = []
    for encoding in ("ascii", "utf-8"):
        environment = os.environ | {"PYTHONIOENCODING": encoding}
        command = [sys.executable, "-m", "pellucid", "recipes", "multi30k-de-en"]
        copies.append(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    assert copies[0] == copies[1]


def test_within_a_program_its_streams_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = io.StringIO()
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "stdout", mine)
    assert main(["recipes"]) == 0
    assert (sys.stdout, sys.stderr) == (mine, None)
    assert "multi30k" in mine.getvalue()
