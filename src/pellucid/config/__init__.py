"""The settings of a recipe and of sampling, each with its default.

A `Recipe` holds the four groups of settings, as the sections [model] [data] [train] [decode] of a TOML file do.
The string below a field is its documentation, from which the reference pages are generated.
"""

from pellucid.config.data import DataConfig
from pellucid.config.decode import BATCH_TOKENS, DecodeConfig, SamplingConfig
from pellucid.config.model import MAX_POSITIONS, PRESETS, ModelConfig
from pellucid.config.recipe import KEYS, SECTIONS, Recipe
from pellucid.config.tables import list_shipped_recipes
from pellucid.config.tasks import TASKS, Task
from pellucid.config.train import TrainConfig

FORMAT = "pellucid/2"
"""The version of the model folder."""
FIRST_FORMAT = "pellucid/1"
"""The earlier version, which can be read, too."""
RECIPE = "recipe.toml"
"""The file of a run folder that holds its recipe."""

__all__ = [
    "BATCH_TOKENS", "FIRST_FORMAT", "FORMAT", "KEYS", "MAX_POSITIONS", "PRESETS", "RECIPE", "SECTIONS", "TASKS",
    "DataConfig", "DecodeConfig", "ModelConfig", "Recipe", "SamplingConfig", "Task", "TrainConfig",
    "list_shipped_recipes",
]  # fmt: skip
