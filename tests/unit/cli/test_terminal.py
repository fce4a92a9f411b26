"""Lines as wide as the terminal: broken between words, and examples that can still be pasted."""

import re
import shlex
import sys

import pytest

from pellucid.cli.commands import VERBS, load_command
from pellucid.cli.main import USAGE
from pellucid.terminal import log_line, show, wrap_help, wrap_text
from tests.unit.cli.command_line import CommandLine

WIDTHS = [80, 60, 40]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("verb", ["", *VERBS])
def test_the_help_fits_the_terminal(
    pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch, verb: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = pellucid(*([verb] if verb else []), "--help").out
    assert max(map(len, shown.splitlines())) <= width
    intro = shown.replace(" \\\n", " ").split("╭─")[0].split("-----")[0]
    written = load_command(verb).__doc__ if verb else USAGE.format(verbs="")
    assert " ".join(written.split()) in " ".join(intro.split()) or not verb, "no word is broken"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("verb", VERBS)
def test_an_example_stays_a_command(
    pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch, verb: str, width: int
) -> None:
    def examples() -> list[list[str]]:
        shown = pellucid(verb, "--help").out.replace("\\\n", " ")
        return [shlex.split(found) for found in re.findall(r"^example: (.*)$", shown, re.MULTILINE)]

    monkeypatch.setenv("COLUMNS", "1000")
    whole = examples()
    assert whole
    monkeypatch.setenv("COLUMNS", str(width))
    assert examples() == whole


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_messages_are_broken_between_words_on_a_terminal_alone(
    stream: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    line = (
        "the plan is measured here: " + "wort " * 20 + "/a/path/longer/than/the/terminal/that/stays/whole/for/pasting"
    )
    write = show if stream == "stdout" else log_line
    write(line)
    assert getattr(capsys.readouterr(), (stream == "stdout" and "out") or "err") == f"{line}\n"
    monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: True, raising=False)
    write(line)
    written = getattr(capsys.readouterr(), (stream == "stdout" and "out") or "err").splitlines()
    assert len(written) > 3
    assert [word for each in written for word in each.split()] == line.split()
    assert all(len(each) <= 50 or "/" in each for each in written)


@pytest.mark.parametrize("verb", VERBS)
def test_no_default_is_said_as_python_writes_it(pellucid: CommandLine, verb: str) -> None:
    shown = pellucid(verb, "--help").out
    assert not re.search(r"\(default:\s*(|None|''|False|True)\)", re.sub(r"[│\s]+", " ", shown)), shown


@pytest.mark.parametrize(
    ("verb", "usage"),
    [
        ("recipes", "[NAME] [--schema]"), ("train", "[RECIPE]"), ("translate", "MODEL [TEXT]"),
        ("classify", "MODEL [TEXT]"), ("generate", "MODEL [TEXT]"), ("inspect", "MODEL [TEXT]"),
        ("plot", "KIND [NAME ...]"),
    ],
)  # fmt: skip
def test_what_may_be_left_out_stands_in_brackets(pellucid: CommandLine, verb: str, usage: str) -> None:
    assert pellucid(verb, "--help").out.splitlines()[0].endswith(f" {usage}")


def test_lines_are_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = "a line that is a good deal longer than forty columns\n\nshort"
    assert wrap_text(text, 4) == "a line that is a good deal longer than\n    forty columns\n\nshort"
    assert wrap_text("x" * 60) == "x" * 60, "a word is whole"
    shown = wrap_help("Do it.\n\n    example: pellucid train --src train.de --tgt train.en --out run\n    ")
    assert shown == "Do it.\n\nexample: pellucid train --src train.de \\\n          --tgt train.en --out run"


def test_messages_and_lists_are_broken_on_a_terminal_alone(
    pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    piped = pellucid("recipes").out
    assert max(map(len, piped.splitlines())) > 60
    monkeypatch.setattr("pellucid.terminal.should_wrap", lambda stream=None: True)
    shown = pellucid("recipes").out
    assert max(map(len, shown.splitlines())) <= 60
    assert shown.split() == piped.split()
    error = pellucid("train", "--out", "x", "--set", "train.lr=1").err
    assert max(map(len, error.splitlines())) <= 60
    assert "did you mean `learning_rate`?" in " ".join(error.split())
