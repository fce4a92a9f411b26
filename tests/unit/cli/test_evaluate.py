"""`pellucid evaluate`: a report for people, JSON for programs."""

import json
from pathlib import Path

import pytest

from tests.toy_task import reversed_letters, write_pairs
from tests.unit.cli.command_line import CommandLine

PAIRS = [*reversed_letters(6, seed=9), ("", "a")]


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    return write_pairs(tmp_path, PAIRS, "test")


def test_evaluate_reports_and_gives_json(pellucid: CommandLine, finished_run: Path, texts: tuple[str, str]) -> None:
    options = ["--src", texts[0], "--ref", texts[1], "--beam-size", "1"]
    report = pellucid("evaluate", finished_run, *options)
    assert (report.status, report.err) == (0, "")
    for text in ("BLEU", "chrF", "nrefs:1|case:mixed", "7 sentences"):
        assert text in report.out
    table = json.loads(pellucid("evaluate", finished_run, *options, "--json").out)
    assert table["sentences"] == 7
    assert f"{table['bleu']:.2f}" in report.out
    assert table["signature"].startswith("nrefs:1|case:mixed")
