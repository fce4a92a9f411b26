"""The benchmarks of long jobs: those who translate a folder are killed, and what processes hold is looked at."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.benchmarks.conftest import Ran

pytestmark = pytest.mark.slow


@pytest.fixture
def module(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("bulk")


def test_files_put_together_are_the_lines(module: ModuleType, tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(100)]
    module.write_files(lines, 15, tmp_path / "in")
    files = [path for path in (tmp_path / "in").rglob("*") if path.is_file()]
    assert len(files) == 15
    assert {path.suffix for path in files} == {"", ".gz"}
    assert module.merged(tmp_path / "in").decode().splitlines() == lines


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
@pytest.mark.parametrize("by", ["commands", "workers"])
def test_what_is_killed_becomes_what_one_process_writes(
    run_script: Callable[..., Ran], translator_folder: Path, by: str
) -> None:
    arguments: list[Any] = ["--model", translator_folder, "--quick", "--workers", 2, "--kills", 1, "--by", by]
    table, _ = run_script("bulk", *arguments)
    assert (table["equal bytes"], table["all found done"], table["written again"]) == (True, True, 0)
    assert (table["kills"], table["left over"]) == (2, 0)
    assert table["different"] > 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_memory_is_told_of_each_process(module: ModuleType, translator_folder: Path, tmp_path: Path) -> None:
    module.write_files([f"line {number}" for number in range(600)], 4, tmp_path / "in")

    class Arguments:
        minutes, workers = 0.1, 2

    found, good = module.watch_memory(Arguments, translator_folder, tmp_path)
    assert [*found["processes"]] == ["command", "process 1", "process 2"]
    assert found["files written"] > 4
    assert good == all(each["growth"] <= 1.02 for each in found["processes"].values())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_memory_is_told_of_each_rank(
    run_script: Callable[..., Ran], script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("save_every", "validate_every"):
        monkeypatch.setitem(script("training_memory").SETTINGS, f"train.{name}", 10)
    table, _ = run_script("training_memory", "--minutes", 0.05)
    assert [*table["processes"]] == ["command", "process 1", "process 2"]
    assert table["steps"] >= 10
