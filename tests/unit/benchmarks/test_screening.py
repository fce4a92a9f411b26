"""The benchmark of seven factors: the file of a sweep that it makes, and the texts beside it."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pellucid.cli.main import main

pytestmark = pytest.mark.slow


def test_a_screening_of_seven_factors_in_eight_runs(
    data: Path,
    script: Callable[[str], ModuleType],
    run_script: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = data / "out"
    plan: list[str] = []

    def planned(*args: object) -> str:
        assert main([*map(str, args), "--plan"]) == 0
        plan.extend(capsys.readouterr().out.splitlines())
        (out / "runs").mkdir(exist_ok=True)
        (out / "runs/results.json").write_text(json.dumps({"effects": []}), encoding="utf-8")
        return ""

    monkeypatch.setattr(script("screening"), "pellucid", planned)
    result, _ = run_script("screening", "--data-dir", data, "--out", out)
    assert result["sweep"] == {"effects": []}
    head, *rows = plan
    assert len([name for name in head.split() if "." in name]) == 7
    assert sum(row.startswith("screen-") for row in rows) == 8
    assert (out / "texts/train.de").read_text(encoding="utf-8").islower()
