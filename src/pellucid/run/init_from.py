"""`init_from`: fine-tuning, a run that starts from a trained model's weights instead of random ones.

The run takes the model's tokenizer and shape, and its [decode] settings where the recipe leaves them at the defaults.
The recipe determines dropout and all of training. The schedule begins at step 0 with a new optimizer, at a twentieth of
the recipe's learning rate if the command names the model, sets no rate and adds no language. The SHA-256 of the weights
is written into the run's recipe, and the weights into its first checkpoint: so the run can be resumed without the
model's folder, but not with another model.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import torch

from pellucid.config import KEYS, TASKS, DecodeConfig, ModelConfig, Recipe, TrainConfig
from pellucid.config.data import check_language_code
from pellucid.config.model import DROPOUTS
from pellucid.config.tables import split_override, toml_line
from pellucid.errors import ConfigError
from pellucid.files.reading import hash_file
from pellucid.model.parts import Parts
from pellucid.planning import rules
from pellucid.tasks.languages import check_languages, set_languages, uses_language_tags
from pellucid.tasks.task import require_tokenizers, resolve_model
from pellucid.text.remapped_sentencepiece import RemappedSentencePiece
from pellucid.text.tokenizer import OWN_KIND
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary_extension import check_appendable
from pellucid.training.schedule import compute_peak_rate
from pellucid.weights.folder import WEIGHTS, SavedModel, is_pellucid_folder, read_config
from pellucid.weights.opening import open_folder

OF_HEADS = ("classifier_activation", "pooling")
"""Settings of a classifier's head: the recipe's values are used if the initial model has no head."""
FOREIGN_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
OF_THE_RECIPE = ("n_best", "batch_tokens", "max_source_length")
"""Settings of [decode] that are not taken from the initial model."""
OF_TOKENIZERS = ("tokenizer", "vocab_size", "joint_vocab", "lowercase", "min_frequency", "byte_fallback")

Languages = tuple[str | None, str | None]
"""The language codes of source and target; None: not given."""
SPOKEN = ("source_language", "target_language")
"""The names of these codes in messages."""


@dataclass(frozen=True)
class InitialModel:
    """A trained model that a run is initialized from, read and hashed once."""

    folder: Path
    model: SavedModel
    digest: str
    """The SHA-256 of its weights."""

    @classmethod
    def read(cls, folder: Path, parts: Parts | None = None, tokenizer: TokenizerPair | None = None) -> Self:
        """Reads the model of a folder. Raises CheckpointError if it is missing or damaged.

        Args:
            parts: the run's custom modules, for a model that was saved with parts; the tokenizer likewise.
        """
        table = read_config(folder) if (parts or tokenizer) is not None and is_pellucid_folder(folder) else {}
        own = "own" in table.get("tokenizer", {})
        model = open_folder(
            folder, torch.device("cpu"), parts=parts if "parts" in table else None, tokenizer=tokenizer if own else None
        )
        return cls(folder, model, hash_weights(folder))

    @classmethod
    def from_recipe(cls, recipe: Recipe, parts: Parts | None = None, tokenizer: TokenizerPair | None = None) -> Self:
        """Reads the model that a recipe names. Raises CheckpointError, ConfigError if it cannot be used."""
        start = cls.read(resolve_model(recipe.train.init_from), parts, tokenizer)
        start.check(recipe)
        return start

    def check(self, recipe: Recipe) -> None:
        """Raises ConfigError if the model does not suit the recipe's task, or its weights differ from the recipe's.

        Raises CheckpointError if it has no tokenizer.
        """
        saved, folder = self.model, self.folder
        task = TASKS[recipe.task]
        if saved.task not in task.starts_from:
            raise ConfigError(
                f'`{folder}` holds a model of another family: `task = "{recipe.task}"` requires {task.stacks}, but '
                f"it has {saved.model.config.num_encoder_layers} encoder and {saved.model.config.num_decoder_layers} "
                "decoder layers",
                "choose another recipe, or another initial model",
            )
        require_tokenizers(saved, folder)
        if recipe.train.init_sha256 not in ("", self.digest):
            raise ConfigError(
                f"`train.init_sha256` is {recipe.train.init_sha256}, but the weights in `{folder}` have {self.digest}",
                "name the folder with the weights of the recipe, or leave `init_sha256` out",
            )


def apply_initial_model(
    recipe: Recipe,
    run: Path | None,
    stored: Recipe | None,
    *,
    overrides: Sequence[str] = (),
    languages: Languages = (None, None),
    parts: Parts | None = None,
    tokenizer: TokenizerPair | None = None,
    known: InitialModel | None = None,
) -> tuple[Recipe, InitialModel | None]:
    """Returns the recipe with the settings of its initial model, and that model, if it has one.

    The settings are the shape, the tokenizer's kind, the SHA-256 of the weights, and the [decode] settings that the
    recipe leaves at the defaults. If the model's folder no longer exists, they come from the run that began with it,
    and the model is None.

    Args:
        run: the run's own folder, if it has one.
        stored: the recipe of a run there that is resumed.
        overrides: the `section.key=value` settings among the recipe's, which must not contradict the model.
        languages: the language codes of the texts; None: a multilingual model's default direction. For other models
            they are recorded as the language pair of the run.
        parts: the run's custom modules.
        tokenizer: the tokenizer that the model was trained with, if its folder does not contain it.
        known: an initial model that was read before.

    Raises CheckpointError if there is no model; ConfigError for a setting that contradicts it, for weights that differ
    from `init_sha256`, for the run's own folder, for a run that began with other weights, or for languages that are
    unknown, missing or without effect.
    """
    if not recipe.train.init_from:
        recipe = _name_languages(recipe, languages)
        if recipe.data.add_language:
            codes = ", ".join(recipe.data.files("add_language"))
            raise ConfigError(
                f"`data.add_language=` has {codes}, but no initial model is given",
                "name a model with `init_from=`; a new model has all languages of its corpora",
            )
        _check_began_so(run, stored, recipe)
        return recipe, None
    name = recipe.train.init_from
    # A run that began with the model does not require its folder, and nothing is downloaded for it.
    began_with = stored is not None and stored.train.init_from == name
    folder = Path(name) if began_with else resolve_model(name)
    if run is not None and folder.resolve() == run.resolve():
        raise ConfigError(f"`{folder}` cannot be both the initial model and the run folder", "choose another `out=`")
    given = {key for section, key, _ in (split_override(each, KEYS) for each in overrides) if section == "decode"}
    start, kinds = None, tuple[str, ...]()
    if began_with and not folder.exists():
        assert stored is not None
        assert run is not None
        shape, kinds, digest = stored.model, (stored.data.tokenizer,), stored.train.init_sha256
        decode = _merge_decode(stored.decode, recipe.decode, given)
        if languages != (None, None):
            table = read_config(run)
            tokenizers = TokenizerPair.load(run, table["tokenizer"], tokenizer)
            pairs = table.get("text", {}).get("pairs", ())
            if codes := table.get("languages", {}):
                decode = set_languages(decode, shape, tokenizers, codes, *languages, pairs)
            else:
                recipe = _name_languages(recipe, languages)
    else:
        start = known if known is not None and known.folder == folder else InitialModel.read(folder, parts, tokenizer)
        start.check(recipe)
        saved, digest = start.model, start.digest
        assert saved.tokenizers is not None
        shape, kinds = saved.model.config, (saved.tokenizers.source.kind, saved.tokenizers.target.kind)
        decode = _merge_decode(saved.decode, recipe.decode, given)
        if recipe.data.tgt_lang or not saved.languages:
            recipe = _name_languages(recipe, languages)
        pairs = () if saved.text is None else saved.text.pairs
        _check_added(recipe, start)
        if recipe.data.tgt_lang:  # each source begins with a language tag
            decode = replace(decode, source_prefix=())
        elif saved.languages:
            decode = set_languages(decode, shape, saved.tokenizers, saved.languages, *languages, pairs)
        if recipe.task == "translate" and not recipe.data.tgt_lang:
            check_languages(decode, shape, saved.tokenizers, saved.languages)
    if tokenizer is not None and OWN_KIND not in kinds:
        raise make_unused_tokenizer_error(folder)
    _check_settings(overrides, shape, folder)
    own = DROPOUTS if shape.num_classes else (*DROPOUTS, *OF_HEADS)
    started = replace(
        recipe,
        model=replace(shape, **{name: getattr(recipe.model, name) for name in own}),
        data=replace(recipe.data, tokenizer=kinds[0]),
        train=replace(recipe.train, init_sha256=digest),
        decode=decode,
    )
    _check_began_so(run, stored, started)
    return started, start


def _name_languages(recipe: Recipe, languages: Languages) -> Recipe:
    """Returns the recipe with the language pair of its texts, for a model without language codes.

    Raises ConfigError if one of the two is missing, if one is not a language code, for a recipe that names the
    languages of each corpus, and for another task.
    """
    given = {name: code for name, code in zip(SPOKEN, languages, strict=True) if code is not None}
    if not given:
        return recipe
    said = f"languages are given (`{'` and `'.join(given.values())}`)"
    if recipe.task != "translate":
        raise ConfigError(f'{said}, but `task = "{recipe.task}"` has no language pair', "leave them out")
    if recipe.data.tgt_lang:
        raise ConfigError(
            f"{said}, and `data.tgt_lang=` ({', '.join(recipe.data.files('tgt_lang'))}) names the languages of each "
            "corpus",
            "leave one of them out",
        )
    for name, code in given.items():
        check_language_code(f"{name}=", code)
    if missing := [name for name in SPOKEN if name not in given]:
        raise ConfigError(
            f"{said}, but `{missing[0]}=` is missing: a language pair has two", f"give `{missing[0]}=`, too"
        )
    return replace(recipe, languages=tuple(given.values()))


def make_unused_tokenizer_error(folder: Path | str) -> ConfigError:
    """Returns the error for a tokenizer that is passed although the initial model has one."""
    return ConfigError(f"`tokenizer=` has no effect: the run uses the tokenizer of `{folder}`", "leave it out")


def apply_finetuning_rate(recipe: Recipe, given: Collection[str], stored: Recipe | None) -> Recipe:
    """Returns the recipe with the learning rate for fine-tuning: a twentieth of the recipe's, after a short warmup.

    If a language is added, the rate is not lowered, as most of it has to be learned; the warmup is as short. The
    paper's schedule has no rate to lower; it is replaced by the same curve with one.

    Args:
        given: the settings, as `section.key`, that the user has set, which are not changed.
        stored: the recipe of the run that is resumed; if it has the undivided rates, as of earlier versions, they are
            not changed.
    """
    train = recipe.train
    if stored is not None and _rates(stored.train) == _rates(train):
        return recipe
    changes: dict[str, Any] = {}
    gentler = rules.gentler(adds_language=bool(recipe.data.add_language))
    if "train.warmup_steps" not in given:
        changes["warmup_steps"] = max(1, min(train.warmup_steps, train.steps) // rules.SHORTER)
    if train.schedule == "noam" and "train.schedule" in given:
        return recipe
    if "train.learning_rate" not in given:
        changes["learning_rate"] = compute_peak_rate(train, recipe.model.d_model) / gentler
        if "train.final_learning_rate" not in given:
            changes["final_learning_rate"] = train.final_learning_rate / gentler
        if train.optimizer == "muon" and "train.muon_learning_rate" not in given:
            changes["muon_learning_rate"] = train.muon_learning_rate / gentler
        if train.schedule == "noam":
            changes["schedule"] = "inverse_sqrt"
    return replace(recipe, train=replace(train, **changes))


def _rates(train: TrainConfig) -> tuple[str, float | None, int]:
    return train.schedule, train.learning_rate, train.warmup_steps


def _merge_decode(own: DecodeConfig, recipe: DecodeConfig, given: Collection[str]) -> DecodeConfig:
    """Returns the model's own settings, except for the settings of the recipe and of an override (`given`)."""
    default = DecodeConfig()
    kept = {
        f.name: getattr(own, f.name)
        for f in fields(DecodeConfig)
        if f.name not in (*OF_THE_RECIPE, *given) and getattr(recipe, f.name) == getattr(default, f.name)
    }
    return replace(recipe, **kept)


def _check_began_so(run: Path | None, stored: Recipe | None, asked: Recipe) -> None:
    """Raises ConfigError if the run in the folder began with other weights."""
    if stored is not None and stored.train.init_sha256 != asked.train.init_sha256:
        before, now = (
            f"the weights of `{r.train.init_from}` (SHA-256 {r.train.init_sha256})"
            if r.train.init_from
            else "random weights"
            for r in (stored, asked)
        )
        raise ConfigError(
            f"the run in `{run}` was started with {before}, this command starts with {now}",
            "repeat the command that started it, choose another `out=`, or start over with `fresh=True`",
        )


def _check_added(recipe: Recipe, start: InitialModel) -> None:
    """Raises ConfigError for added languages that the model has already, or if it cannot be extended."""
    saved, added = start.model, recipe.data.files("add_language")
    if not added:
        return
    pairs = () if saved.text is None else saved.text.pairs
    known = {*saved.languages, *(code for pair in pairs for code in pair.split("-"))}
    if again := [code for code in added if code in known]:
        raise ConfigError(
            f"`data.add_language=` has {', '.join(again)}, which `{start.folder}` already has",
            "leave it out: a recipe with `data.tgt_lang` continues with the languages of the model",
        )
    _check_extensible(start)


def _check_extensible(start: InitialModel) -> None:
    """Raises ConfigError for a model to which no language can be added."""
    tokenizers, config = start.model.tokenizers, start.model.model.config
    assert tokenizers is not None
    sides = (tokenizers.source, tokenizers.target)
    if not all(isinstance(side, RemappedSentencePiece) for side in sides):
        for tokenizer in sides:
            check_appendable(tokenizer)
        return
    if start.model.languages and not uses_language_tags(tokenizers, start.model.languages):
        raise ConfigError(
            f"`{start.folder}` has built-in codes for {len(start.model.languages)} languages, so no tag can be added",
            "train it on one of its language pairs, for instance the nearest language, or train a new model of all "
            "languages",
        )
    if (config.src_vocab_size, config.tgt_vocab_size) != tuple(side.size for side in sides):
        raise ConfigError(
            f"`{start.folder}` has {config.src_vocab_size:,} and {config.tgt_vocab_size:,} ids, and its tokenizers "
            f"{sides[0].size:,} and {sides[1].size:,}: a tag would not get the next id",
            "train a new model of all languages",
        )


def _check_settings(overrides: Sequence[str], shape: ModelConfig, folder: Path) -> None:
    """Raises ConfigError for a setting of the shape that contradicts the model, or a setting of the tokenizer."""
    for override in overrides:
        section, key, value = split_override(override, KEYS)
        if section == "data" and key in OF_TOKENIZERS:
            raise ConfigError(
                f"`overrides={override}` has no effect: the run uses the tokenizer of `{folder}`",
                "leave the setting out",
            )
        if section != "model" or key in DROPOUTS or (key in OF_HEADS and not shape.num_classes):
            continue
        own = "another shape" if key == "preset" else f"`{toml_line(key, getattr(shape, key, None))}`"
        if own != f"`{toml_line(key, value)}`":
            raise ConfigError(
                f"`overrides={override}` contradicts `{folder}`, which has {own}",
                "leave the setting out, or train from the start, without `init_from=`",
            )


def hash_weights(folder: Path) -> str:
    """Returns the SHA-256 of a folder's weights; several files, as in Hugging Face folders, give one hash."""
    if (folder / WEIGHTS).is_file():
        return hash_file(folder / WEIGHTS)
    files = sorted(path for pattern in FOREIGN_WEIGHTS for path in folder.glob(pattern))
    if len(files) == 1:
        return hash_file(files[0])
    return hashlib.sha256("".join(f"{path.name} {hash_file(path)}\n" for path in files).encode()).hexdigest()
