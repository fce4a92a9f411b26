"""`--init-from MODEL`: a run that begins with a trained model's weights instead of random ones.

The model's tokenizer and shape are the run's; so is how it reads and searches, where the recipe leaves [decode] at its
defaults. The recipe decides dropout and all of training, whose schedule begins at step 0 with a new optimizer, at a
twentieth of the recipe's rate where the command names the model and no rate. The SHA-256 of the weights is written into
the run's recipe, and the weights into its first checkpoint: so the run goes on without the model's folder, and with no
other one.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from pellucid.config import KEYS, DecodeConfig, ModelConfig, Recipe, TrainConfig
from pellucid.config.recipe import NEEDS
from pellucid.config.tables import split_override, toml_line
from pellucid.errors import CheckpointError, ConfigError
from pellucid.files.reading import sha256_of
from pellucid.planning.rules import GENTLER, SHORTER
from pellucid.run.folder import RunFolder
from pellucid.tasks.languages import check_languages, speaking
from pellucid.tasks.saved import model_folder
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights.folder import WEIGHTS, SavedModel, read_config
from pellucid.weights.opening import open_folder

DROPOUTS = ("dropout", "attention_dropout", "feed_forward_dropout")
OF_HEADS = ("classifier_activation", "pooling")
"""Of a classifier's head: where the model to start from has none, the recipe's count."""
STARTS = {"translate": ("translate",), "classify": ("classify", "encode"), "generate": ("generate",)}
"""What a model may have been for that starts a task."""
FOREIGN_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
OF_THE_RECIPE = ("n_best", "batch_tokens", "max_source_length")
"""Of [decode]: what is not taken from the model to start from."""
OF_TOKENIZERS = ("tokenizer", "vocab_size", "joint", "lowercase", "min_frequency", "byte_fallback")

Languages = tuple[str | None, str | None]
"""The codes of source and target, for a model of many languages."""


@dataclass(frozen=True)
class _Start:
    """What a recipe takes from the model to start from."""

    shape: ModelConfig
    tokenizer: str
    """Its kind."""
    digest: str
    """The SHA-256 of its weights."""
    decode: DecodeConfig


def with_start(
    recipe: Recipe,
    run: RunFolder,
    fresh: bool,
    overrides: Sequence[str] = (),
    languages: Languages = (None, None),
) -> Recipe:
    """The recipe with the shape of the model that it starts from, and the SHA-256 of its weights; most have none.

    So it is with what the model reads around texts and how it searches, where the recipe leaves that at the defaults.

    Where that model's folder is gone, a run that began with it knows both.

    Args:
        overrides: the `section.key=value` settings among the recipe's, which must not contradict the model.
        languages: what the texts are in; None: what the model translates between by default.

    Raises CheckpointError where there is no model; ConfigError for a setting that contradicts it, for weights that
    `init_sha256` does not mean, for the run's own folder, a run that began otherwise, or languages that are unknown,
    missing or of no use.
    """
    stored = None if fresh else run.recipe
    if not recipe.train.init_from:
        if languages != (None, None):
            raise ConfigError(
                f"languages are given (`{'` and `'.join(filter(None, languages))}`), but no model that knows any",
                "name one with --init-from, or leave them out",
            )
        _check_run(run, stored, recipe)
        return recipe
    folder = _folder(recipe, stored)
    if folder.resolve() == run.path.resolve():
        raise ConfigError(
            f"`{folder}` cannot be the model to start from and the run's own folder", "choose another `--out`"
        )
    given = {key for section, key, _ in (split_override(each, KEYS) for each in overrides) if section == "decode"}
    start = _described(folder, run, stored, recipe, given, languages)
    _check_settings(overrides, start.shape, folder)
    own = DROPOUTS if start.shape.num_classes else (*DROPOUTS, *OF_HEADS)
    dropouts = {name: getattr(recipe.model, name) for name in own}
    started = replace(
        recipe,
        model=replace(start.shape, **dropouts),
        data=replace(recipe.data, tokenizer=start.tokenizer),
        train=replace(recipe.train, init_sha256=start.digest),
        decode=start.decode,
    )
    _check_run(run, stored, started)
    return started


def with_gentle_rate(recipe: Recipe, given: Collection[str], stored: Recipe | None) -> Recipe:
    """The recipe with a rate for trained weights: a twentieth of the one for random weights, after a short warm-up.

    The paper's schedule has no rate of its own to lower; it becomes the same curve with one.

    Args:
        given: the settings, as `section.key`, that the user has named, which stay.
        stored: the recipe of the run that is gone on with; where that has the undivided rates, as earlier versions
            began it, they stay.
    """
    train = recipe.train
    if stored is not None and _rates(stored.train) == _rates(train):
        return recipe
    changes: dict[str, Any] = {}
    if "train.warmup_steps" not in given:
        changes["warmup_steps"] = max(1, min(train.warmup_steps, train.steps) // SHORTER)
    if train.schedule == "noam" and "train.schedule" in given:
        return recipe
    if "train.learning_rate" not in given:
        peak = train.learning_rate or (recipe.model.d_model * train.warmup_steps) ** -0.5
        changes["learning_rate"] = peak / GENTLER
        if "train.final_learning_rate" not in given:
            changes["final_learning_rate"] = train.final_learning_rate / GENTLER
        if train.schedule == "noam":
            changes["schedule"] = "inverse_sqrt"
    return replace(recipe, train=replace(train, **changes))


def _rates(train: TrainConfig) -> tuple[str, float | None, int]:
    return train.schedule, train.learning_rate, train.warmup_steps


def _folder(recipe: Recipe, stored: Recipe | None) -> Path:
    """Where the model lies that training starts from; a run that began with it does without, and nothing is fetched."""
    name = recipe.train.init_from
    return Path(name) if stored is not None and stored.train.init_from == name else model_folder(name)


def _described(
    folder: Path, run: RunFolder, stored: Recipe | None, recipe: Recipe, given: Collection[str], languages: Languages
) -> _Start:
    """What a recipe takes from a model, out of its folder or out of the run that began with it."""
    if stored is not None and not folder.exists() and stored.train.init_from == recipe.train.init_from:
        decode = _decode(stored.decode, recipe.decode, given)
        if languages != (None, None):
            table = read_config(run.path)
            tokenizers = Tokenizers.load(run.path, table["tokenizer"])
            decode = speaking(decode, stored.model, tokenizers, table.get("languages", {}), *languages)
        return _Start(stored.model, stored.data.tokenizer, stored.train.init_sha256, decode)
    saved, digest = open_folder(folder, torch.device("cpu")), weights_digest(folder)
    _check_task(saved, recipe, folder)
    if recipe.train.init_sha256 not in ("", digest):
        raise ConfigError(
            f"`train.init_sha256` is {recipe.train.init_sha256}, but the weights in `{folder}` have {digest}",
            "name the folder with the weights that the recipe means, or leave `init_sha256` out",
        )
    assert saved.tokenizers is not None
    shape, known = saved.model.config, saved.languages
    decode = speaking(_decode(saved.decode, recipe.decode, given), shape, saved.tokenizers, known, *languages)
    if recipe.task == "translate":
        check_languages(decode, shape, saved.tokenizers, known)
    return _Start(shape, saved.tokenizers.source.kind, digest, decode)


def _decode(own: DecodeConfig, recipe: DecodeConfig, given: Collection[str]) -> DecodeConfig:
    """The model's own settings, but for those that the recipe sets, or --set gives (`given`)."""
    default = DecodeConfig()
    kept = {
        f.name: getattr(own, f.name)
        for f in fields(DecodeConfig)
        if f.name not in (*OF_THE_RECIPE, *given) and getattr(recipe, f.name) == getattr(default, f.name)
    }
    return replace(recipe, **kept)


def _check_task(saved: SavedModel, recipe: Recipe, folder: Path) -> None:
    """Raises ConfigError for a model that cannot learn the recipe's task, CheckpointError for one without tokenizer."""
    if saved.task not in STARTS[recipe.task]:
        raise ConfigError(
            f'`{folder}` holds a model of another family: `task = "{recipe.task}"` needs {NEEDS[recipe.task]}, and it '
            f"has {saved.model.config.num_encoder_layers} encoder and {saved.model.config.num_decoder_layers} decoder "
            "layers",
            "choose another recipe, or another model to start from",
        )
    if saved.tokenizers is None:
        raise CheckpointError(
            f"the model in `{folder}` has no tokenizer, so it cannot read text", "copy the tokenizer's files into it"
        )


def load_start(recipe: Recipe, run: RunFolder, resuming: bool) -> SavedModel | None:
    """The model that a run starts from; None where it starts from nothing, or has its first checkpoint already.

    Raises CheckpointError where the folder is no model any more, or another one.
    """
    if not recipe.train.init_from or (resuming and run.has_checkpoints):
        return None
    folder = model_folder(recipe.train.init_from)
    saved = open_folder(folder, torch.device("cpu"))
    if weights_digest(folder) != recipe.train.init_sha256:
        raise CheckpointError(f"the weights in `{folder}` have just changed", "give the same command again")
    return saved


def _check_run(run: RunFolder, stored: Recipe | None, asked: Recipe) -> None:
    """Raises ConfigError where the run in the folder began with other weights."""
    if stored is not None and stored.train.init_sha256 != asked.train.init_sha256:
        before, now = (
            f"the weights of `{r.train.init_from}` (SHA-256 {r.train.init_sha256})"
            if r.train.init_from
            else "random weights"
            for r in (stored, asked)
        )
        raise ConfigError(
            f"the run in `{run.path}` began with {before}, this command begins with {now}",
            "repeat the command that began it, choose another `--out`, or start over with --fresh",
        )


def _check_settings(overrides: Sequence[str], shape: ModelConfig, folder: Path) -> None:
    """Raises ConfigError for a setting of the model's shape that is not the model's, or of the tokenizer."""
    for override in overrides:
        section, key, value = split_override(override, KEYS)
        if section == "data" and key in OF_TOKENIZERS:
            raise ConfigError(
                f"`--set {override}` has no effect: the tokenizer is that of `{folder}`", "leave the setting out"
            )
        if section != "model" or key in DROPOUTS or (key in OF_HEADS and not shape.num_classes):
            continue
        own = "a shape of its own" if key == "preset" else f"`{toml_line(key, getattr(shape, key, None))}`"
        if own != f"`{toml_line(key, value)}`":
            raise ConfigError(
                f"`--set {override}` contradicts `{folder}`, which has {own}",
                "leave the setting out, or train from the start, without --init-from",
            )


def weights_digest(folder: Path) -> str:
    """The SHA-256 of a folder's weights; of several files, as foreign folders may have them, that of all in order."""
    if (folder / WEIGHTS).is_file():
        return sha256_of(folder / WEIGHTS)
    files = sorted(path for pattern in FOREIGN_WEIGHTS for path in folder.glob(pattern))
    if len(files) == 1:
        return sha256_of(files[0])
    return hashlib.sha256("".join(f"{path.name} {sha256_of(path)}\n" for path in files).encode()).hexdigest()
