"""`pellucid average`: the mean of a run's checkpoints as a model folder."""

from pathlib import Path
from typing import Literal

import torch

from pellucid.errors import CheckpointError, ConfigError
from pellucid.files.writing import convert_write_errors
from pellucid.model.parts import Parts
from pellucid.run.card import model_card
from pellucid.run.folder import RunFolder, open_checkpoints, read_stored_recipe
from pellucid.text.tokenizers import GivenTokenizers
from pellucid.text.word_forms import WordForms, save_word_forms
from pellucid.training.state import average_into
from pellucid.weights.folder import save_description, save_weights
from pellucid.weights.opening import open_folder


def average_run(
    run: str | Path,
    out: str | Path,
    num_checkpoints: int | None = None,
    strategy: Literal["last", "best", ""] = "",
    *,
    parts: Parts | None = None,
    tokenizer: GivenTokenizers | None = None,
) -> int:
    """Averages `num_checkpoints` checkpoints of a run into the model folder `out`; returns their number.

    Args:
        num_checkpoints: the number of checkpoints; if None, the run's `train.average`.
        strategy: "last", or "best" for the best validations; if empty, the recipe's setting.
        parts, tokenizer: the run's, if they are custom ones.

    Raises CheckpointError if the run has fewer checkpoints than requested; ConfigError if `out` exists.
    """
    folder, target = Path(run), Path(out)
    recipe = read_stored_recipe(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"`{target}` already exists", "choose another `out=`")
    if num_checkpoints is not None and num_checkpoints < 1:
        raise ConfigError(f"`num_checkpoints={num_checkpoints}` must be at least 1")
    paths = open_checkpoints(folder, recipe, num_checkpoints).to_average(strategy)
    if not paths or (num_checkpoints and len(paths) < num_checkpoints):
        raise CheckpointError(
            f"`{folder}` has {len(paths)} checkpoints to average, not {num_checkpoints or recipe.train.average}",
            "a run keeps `train.average` checkpoints: at least the last two; runs of earlier versions keep the ones "
            "with the best validation only with `train.average_strategy`",
        )
    saved = open_folder(folder, torch.device("cpu"), parts=parts, tokenizer=tokenizer)
    average_into(saved.model, paths)
    config = saved.model.config
    assert saved.tokenizers is not None  # a run has tokenizers
    card = model_card(recipe, config, RunFolder(folder).result, len(paths), parts=parts)
    with convert_write_errors(target, "folder"):
        save_description(
            target, config, saved.tokenizers, saved.decode, card, saved.labels, saved.languages, saved.text, parts
        )
        save_weights(target, saved.model)
        save_word_forms(WordForms.load(Path(folder)), target)
    return len(paths)
