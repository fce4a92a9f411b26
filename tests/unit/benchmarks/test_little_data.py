"""Runs the benchmark of few pairs: a sweep."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.toy_task import SMALL

pytestmark = pytest.mark.slow


def test_a_curve_is_a_sweep(data: Path, in_this_process: Callable[[str], None], run_script: Callable[..., Any]) -> None:
    in_this_process("little_data")
    settings = [part for setting in SMALL for part in ("--set", setting)]
    given = ["--data-dir", data, "--pairs", 1000, "--languages", "de", "--out", data / "out"]
    result, _ = run_script("little_data", "curve", *given, *settings)
    assert [row["setting"] for row in result["sweep"]["settings"]] == ["de-1000"]
