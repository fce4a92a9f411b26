"""Runs the benchmark of methods of attribution against known links."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.benchmarks.conftest import Ran
from tests.unit.benchmarks.test_multi30k_results import copy_run

pytestmark = pytest.mark.slow

METHODS = [
    "best head", "attention, mean", "rollout", "occlusion", "gradient x input", "gradient x input, absolute",
    "integrated gradients", "integrated gradients, absolute", "direct attribution",
]  # fmt: skip


def test_attribution_methods(
    run_script: Callable[..., Ran], translator_folder: Path, finished_run: Path, data_dir: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(translator_folder, tmp_path / "run")
    shutil.copy(copy_run(finished_run, tmp_path / "other") / "recipe.toml", run)
    where = ["--dates", translator_folder, "--multi30k", run, "--data-dir", data_dir]
    table, lines = run_script("attribution_methods", *where, "--sentences", 6)
    assert [(found["task"], found["choosing"], found["scoring"]) for found in table["found"]] == [
        ("dates", 3, 3),
        ("multi30k", 3, 3),
    ]
    for found in table["found"]:
        assert [*found["methods"]] == METHODS
        assert found["best_head"].endswith(("writes", "reads"))
        for row in found["methods"].values():
            assert 0 <= row["low"] <= row["right"] <= row["high"] <= 1
        assert len({row["of"] for row in found["methods"].values()}) == 1
    assert table["found"][0]["methods"]["occlusion"]["of"] == 3 * 8, "eight digits a date"
    assert len(lines) == 2 * (1 + len(METHODS) + 1)
