"""The text that speed is measured on."""

from pathlib import Path

import pytest

from pellucid.benchmark.texts import OWN, read_benchmark_text
from pellucid.config import TASKS
from pellucid.conversion.proof import read_test_sentences
from pellucid.errors import DataError

TRANSLATE = TASKS["translate"]


def test_a_run_has_text_of_its_own(finished_run: Path) -> None:
    lines, origin = read_benchmark_text(finished_run, TRANSLATE, None)
    given = (finished_run.parent / "train.src").read_text(encoding="utf-8").splitlines()
    assert lines == [line for line in given if line.strip()]
    assert origin == f"the run's training text, {finished_run.parent / 'train.src'}"


def test_without_any_there_are_our_own_sentences(tmp_path: Path) -> None:
    lines, origin = read_benchmark_text(tmp_path, TRANSLATE, None)
    assert lines == read_test_sentences()
    assert origin == OWN


def test_what_is_given_wins_without_its_blank_lines(finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a b\n\n \nc\n", encoding="utf-8")
    assert read_benchmark_text(finished_run, TRANSLATE, str(tmp_path / "in")) == (["a b", "c"], str(tmp_path / "in"))


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_nothing_is_no_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "in").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"in` has no text: all of its lines are blank$"):
        read_benchmark_text(tmp_path, TRANSLATE, str(tmp_path / "in"))
