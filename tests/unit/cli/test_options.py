"""What several verbs have in common: a model folder, and two texts side by side."""

from pathlib import Path

import pytest

from tests.toy_task import reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine

PAIRS = [*reversed_letters(6, seed=9), ("", "a")]


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    return write_pairs(tmp_path, PAIRS, "test")


@pytest.mark.parametrize(("verb", "side"), [("score", "--tgt"), ("evaluate", "--ref")])
def test_a_text_that_is_not_named(pellucid: CommandLine, texts: tuple[str, str], verb: str, side: str) -> None:
    assert f"{side} FILE" in pellucid(verb, "no-model", "--src", texts[0]).error


@pytest.mark.parametrize("verb", ["score", "evaluate", "translate", "info"])
def test_a_folder_that_is_no_model(pellucid: CommandLine, tmp_path: Path, texts: tuple[str, str], verb: str) -> None:
    side = {"score": "--tgt", "evaluate": "--ref"}.get(verb)
    folder = tmp_path / "no-model"  # alone in its folder: no other has a name like it
    folder.mkdir()
    outcome = pellucid(verb, folder, *(["--src", texts[0], side, texts[1]] if side else []))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error == f"`{folder}` is not a model folder: no pellucid.json in it"
