"""The model that both speed benchmarks measure: the recipe decoding_model.toml, and the same in small for a trial."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pellucid.config import Recipe
from pellucid.data.locate import resolve_paths

RECIPE = Path(__file__).with_name("decoding_model.toml")

# A few seconds for all there is to do; what it measures means nothing.
QUICK = (
    "model.d_model=32", "model.d_ff=64", "model.num_encoder_layers=2", "model.num_decoder_layers=1",
    "data.src=multi30k/val.de.gz", "data.tgt=multi30k/val.en.gz", "data.vocab_size=600",
    "train.steps=200", "train.batch_tokens=512", "train.warmup_steps=50", "train.learning_rate=1e-2",
    "train.validate_every=200", "train.decode_and_evaluate=10",
)  # fmt: skip


def load_recipe(data_dir: str | None, quick: bool, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe with its texts found in `data_dir` or PELLUCID_DATA. Raises DataError where they are in neither."""
    recipe = Recipe.load(RECIPE, [*overrides, *(QUICK if quick else ())])
    return replace(recipe, data=resolve_paths(recipe.data, data_dir))
