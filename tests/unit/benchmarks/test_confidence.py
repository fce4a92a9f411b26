"""Runs the benchmark of confidence in small."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.toy_task import reversed_letters, write_pairs
from tests.unit.benchmarks.conftest import Ran

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_in_small(
    run_script: Callable[..., Ran], finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    src, ref = write_pairs(tmp_path, reversed_letters(90, seed=9), "valid")
    table, lines = run_script("confidence", finished_run, "--src", src, "--ref", ref, "--device", "cpu")
    assert [one["lines"] for one in table["measured"]] == [45, 45]
    for one in table["measured"]:
        assert all(0 <= value <= 1 for name in ("before", "calibrated") for value in one[name].values())
        assert set(one["planted"]) == {
            "loops", "copies", "half copies", "mismatched translations", "mismatched references", "dropped clauses",
        }  # fmt: skip
        assert one["planted"]["loops"]["auroc"] > 0.5
        assert 0.5 < one["together"]["together"] <= 1
        assert len(one["together"]["by_guards"]) == 8
    assert len(lines) == 18
    with pytest.raises(SystemExit) as stop:
        run_script("confidence", finished_run, "--src", src, "--ref", ref, "--test-src", src)
    assert stop.value.code == 2
    assert "--test-src and --test-ref go together, and one of them is missing" in capsys.readouterr().err
