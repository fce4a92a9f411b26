"""`pellucid score`: a number a line."""

import io
import sys
from pathlib import Path

import pytest

from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine

PAIRS = [*reversed_letters(6, seed=9), ("", "a")]


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    return write_pairs(tmp_path, PAIRS, "test")


def test_score_prints_a_number_a_line(pellucid: CommandLine, finished_run: Path, texts: tuple[str, str]) -> None:
    outcome = pellucid("score", finished_run, "--src", texts[0], "--tgt", texts[1])
    assert (outcome.status, outcome.err) == (0, "")
    values = Translator.load(finished_run, "cpu").score(*zip(*PAIRS, strict=True))
    assert [float(line) for line in outcome.out.splitlines()] == pytest.approx(values, abs=1e-4)


def test_score_reads_standard_input(
    pellucid: CommandLine, finished_run: Path, texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from_files = pellucid("score", finished_run, "--src", texts[0], "--tgt", texts[1])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(texts[1]).read_bytes())))
    assert pellucid("score", finished_run, "--src", texts[0], "--tgt", "-") == from_files


def test_standard_input_cannot_be_both(pellucid: CommandLine, finished_run: Path) -> None:
    outcome = pellucid("score", finished_run, "--src", "-", "--tgt", "-")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error == "standard input (`-`) can be only one of the files"
