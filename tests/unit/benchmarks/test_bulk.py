"""The benchmarks of long jobs: those who translate a folder are killed, and what processes hold is looked at."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.benchmarks.conftest import Ran

pytestmark = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_what_is_killed_becomes_what_one_process_writes(
    run_script: Callable[..., Ran], translator_folder: Path
) -> None:
    arguments: list[Any] = ["--model", translator_folder, "--quick", "--workers", 2, "--kills", 1]
    table, _ = run_script("bulk", *arguments)
    assert (table["equal bytes"], table["all found done"], table["written again"]) == (True, True, 0)
    assert (table["kills"], table["left over"]) == (2, 0)
    assert table["different"] > 20


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
