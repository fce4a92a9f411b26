"""The benchmark of data diversification: what models of both directions write, and one training on all of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli.main import main
from pellucid.config import Recipe
from tests.toy_task import SMALL

pytestmark = pytest.mark.slow

SHORT = "decode.max_length=3"  # so little training writes loops, which are left out
SETTINGS = [part for setting in (*SMALL, SHORT) for part in ("--set", setting)]


def test_one_training_on_all_that_the_models_write(
    data: Path, in_this_process: Callable[[str], None], run_script: Callable[..., Any], tmp_path: Path
) -> None:
    def taught(direction: str, seed: int) -> Path:
        run = tmp_path / f"{direction}-{seed}"
        options = ["--data-dir", str(data), "--out", str(run), "--set", f"train.seed={seed}", *SETTINGS]
        assert main(["train", f"multi30k-{direction}", *options]) == 0
        return run

    models = ["--forward", taught("de-en", 1), taught("de-en", 2), "--backward", taught("en-de", 1)]
    in_this_process("diversification")
    out = tmp_path / "out"
    asked = ["--data-dir", data, "--direction", "de-en", *models, "--seed", 3, "--test", "--out", out, *SETTINGS]
    result, _ = run_script("diversification", *asked)
    assert [*result["scores"]] == [*(f"validation, length penalty {x}" for x in (1.2, 1.6, 2.0)), "test"]
    trained = Recipe.load(out / "de-en" / "seed-3" / "recipe.toml")
    assert trained.train.seed == 3
    texts = [Path(path) for path in trained.data.files("src")]
    assert [path.parent.name for path in texts] == ["multi30k", "forward", "backward-1"]
    assert all(path.read_bytes() for path in texts)
    again, _ = run_script("diversification", *asked)
    assert again["scores"] == result["scores"]
