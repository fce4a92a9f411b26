"""`pellucid bench`: a model's speed, and what cannot be measured."""

import json
from pathlib import Path

import pytest

from tests.processes import run_python
from tests.unit.cli.command_line import CommandLine


@pytest.mark.slow  # products of large matrices, and a process for each way to run it
def test_a_translator_is_measured(finished_run: Path, tmp_path: Path) -> None:
    words = ["bench", finished_run, "--seconds", "0.5", "--threads", "2"]
    outcome = run_python("-m", "pellucid", *words, "--json")
    assert outcome.returncode == 0
    # Where CTranslate2 is installed, the model is converted for it, which is said.
    told = [line for line in outcome.stderr.splitlines() if not line.startswith("converting the model for ctranslate2")]
    assert told == []
    found = json.loads(outcome.stdout)
    assert found["model"]["task"] == "translate"
    assert found["peak_gflops"]["float32"]["median"] > 0
    modes = {row["mode"]: row for row in found["rows"]}
    assert list(modes) == ["beam 5", "greedy", "beam 5, alone", "greedy, alone"]
    for row in found["rows"]:
        assert row["lines_per_second"]["min"] > 0
        assert row["tokens_per_second"]["median"] >= 0  # the model may have learned to write nothing
        assert 0 < row["share_of_peak"] < 1
        assert (row["seconds_a_line"] is not None) == row["alone"]
    assert any(row["side"]["workers"] == 2 for row in found["rows"]) or found["left_out"]


def test_what_cannot_be_measured_is_said_first(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "blank").write_text("\n \n", encoding="utf-8")
    outcome = pellucid("bench", finished_run, "--input", tmp_path / "blank")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error == f"`{tmp_path / 'blank'}` has no text: all of its lines are blank"
    assert pellucid("bench", finished_run, "--seconds", 0).err == "error: `--seconds 0.0` must be above 0\n"
    assert pellucid("bench", finished_run, "--threads", -1).err == "error: `--threads -1` must be above 0\n"
    assert pellucid("bench", tmp_path / "no-model").status == 2
