"""`pellucid average`: what it says of what it did."""

from pathlib import Path

from pellucid.tasks.translator import Translator
from tests.unit.cli.command_line import CommandLine


def test_average_says_how_many_it_took(pellucid: CommandLine, finished_run: Path, tmp_path: Path) -> None:
    outcome = pellucid("average", finished_run, "--out", tmp_path / "mean", "--num-checkpoints", "2")
    expected = f"{tmp_path / 'mean'}: average of 2 checkpoints of {finished_run}\n"
    assert (outcome.status, outcome.out, outcome.err) == (0, "", expected)
    Translator.load(tmp_path / "mean", "cpu")
    again = pellucid("average", finished_run, "--out", tmp_path / "mean")
    assert (again.status, again.error) == (2, f"`{tmp_path / 'mean'}` already exists")
    more = pellucid("average", finished_run, "--out", tmp_path / "more", "--num-checkpoints", "9")
    assert (more.status, more.error) == (1, f"`{finished_run}` has 2 checkpoints to average, not 9")
