"""Lines as wide as the terminal: broken between words, and examples that can still be pasted."""

import re
import shlex
from importlib import import_module

import pytest

from pellucid.cli.main import USAGE
from pellucid.cli.terminal import fitted, fitted_help
from pellucid.cli.verbs import VERBS
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
    written = getattr(import_module(f"pellucid.cli.{verb}"), verb).__doc__ if verb else USAGE.format(verbs="")
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
    assert fitted(text, 4) == "a line that is a good deal longer than\n    forty columns\n\nshort"
    assert fitted("x" * 60) == "x" * 60, "a word is whole"
    shown = fitted_help("Do it.\n\n    example: pellucid train --src train.de --tgt train.en --out run\n    ")
    assert shown == "Do it.\n\nexample: pellucid train --src train.de \\\n          --tgt train.en --out run"


def test_messages_and_lists_are_broken_on_a_terminal_alone(
    pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    piped = pellucid("recipes").out
    assert max(map(len, piped.splitlines())) > 60
    monkeypatch.setattr("pellucid.cli.terminal.is_fitted", lambda stream=None: True)
    monkeypatch.setattr("pellucid.cli.recipes.is_fitted", lambda stream=None: True)
    shown = pellucid("recipes").out
    assert max(map(len, shown.splitlines())) <= 60
    assert shown.split() == piped.split()
    error = pellucid("train", "--out", "x", "--set", "train.lr=1").err
    assert max(map(len, error.splitlines())) <= 60
    assert "did you mean `learning_rate`?" in " ".join(error.split())
