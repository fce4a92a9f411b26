"""The benchmark of a published recipe: its tokens, its size, and a score for each seed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import Recipe
from pellucid.model.transformer import Transformer

RECIPE = Path(__file__).parents[3] / "benchmarks" / "published_recipe.toml"
QUICK = (
    "train.steps=3",
    "train.save_every=1",
    "train.average=1",
    "train.decode_and_evaluate=2",
    "train.batch_tokens=128",
)
SMALL = ("data.vocab_size=300", "model.num_encoder_layers=1")
SETTINGS = [part for each in (*QUICK, *SMALL) for part in ("--set", each)]

pytestmark = pytest.mark.slow


def test_the_model_has_the_published_size() -> None:
    """Wu et al. count 2.6 million parameters."""
    config = Recipe.load(RECIPE, ["model.src_vocab_size=10000", "model.tgt_vocab_size=10000"]).model
    assert round(sum(parameter.numel() for parameter in Transformer(config).parameters()) / 1e6, 1) == 2.6


def test_a_score_for_each_seed(
    data: Path, in_this_process: Callable[[str], None], run_script: Callable[..., Any]
) -> None:
    in_this_process("published_recipe")
    out = data / "out"
    result, told = run_script("published_recipe", "--data-dir", data, "--out", out, "--seed", 1, 2, *SETTINGS)
    assert [row["seed"] for row in result["runs"]] == [1, 2]
    assert all(row["scores"].keys() == {"val", "test_2016_flickr"} for row in result["runs"])
    assert (out / "texts" / "val.en").read_text().islower()
    assert (out / "seed-2.val").is_file()
    assert told[-1].startswith("seed 2: val ")
