"""`pellucid average`: the mean of a run's checkpoints as a model folder."""

from pathlib import Path
from typing import Literal

import torch

from pellucid.errors import CheckpointError, ConfigError
from pellucid.files.writing import refusals_in_words
from pellucid.model.parts import Parts
from pellucid.run.card import model_card
from pellucid.run.folder import RunFolder, checkpoints_of, stored_recipe
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.training.state import average_into
from pellucid.weights.folder import save_description, save_weights
from pellucid.weights.opening import open_folder


def average_run(
    run: str | Path,
    out: str | Path,
    last: int | None = None,
    of: Literal["last", "best", ""] = "",
    *,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
) -> int:
    """Averages the `last` checkpoints of a run into the model folder `out`; returns how many they were.

    Args:
        last: how many; None: as many as the run's recipe says.
        of: the last ones, or those that validated best; empty: as the recipe says.
        parts, tokenizer: those of the run, where they are not Pellucid's.

    Raises CheckpointError where the run has none, or fewer than asked for; ConfigError where `out` is taken.
    """
    folder, target = Path(run), Path(out)
    recipe = stored_recipe(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"`{target}` is there already", "choose another `out=`")
    if last is not None and last < 1:
        raise ConfigError(f"`last={last}` must be at least 1")
    paths = checkpoints_of(folder, recipe, last).to_average(of)
    if not paths or (last and len(paths) < last):
        raise CheckpointError(
            f"`{folder}` has {len(paths)} checkpoints to average, not {last or recipe.train.average}",
            "a run keeps as many as its `train.average` says: of the last ones at least two, of those that validated "
            "best the runs of earlier versions keep none unless `train.average_of` asked for them",
        )
    saved = open_folder(folder, torch.device("cpu"), parts=parts, tokenizer=tokenizer)
    average_into(saved.model, paths)
    config = saved.model.config
    assert saved.tokenizers is not None  # a run has them
    card = model_card(recipe, config, RunFolder(folder).result, len(paths), parts=parts)
    with refusals_in_words(target, "folder"):
        save_description(
            target, config, saved.tokenizers, saved.decode, card, saved.labels, saved.languages, saved.text, parts
        )
        save_weights(target, saved.model)
    return len(paths)
