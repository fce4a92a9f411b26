"""`init_from`: a run that begins with a trained model's weights instead of random ones.

The model's tokenizer and shape are the run's; so is how it reads and searches, where the recipe leaves [decode] at its
defaults. The recipe decides dropout and all of training, whose schedule begins at step 0 with a new optimizer, at a
twentieth of the recipe's rate where the command names the model and no rate, and adds no language. The SHA-256 of the
weights is written into the run's recipe, and the weights into its first checkpoint: so the run goes on without the
model's folder, and with no other one.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import torch

from pellucid.config import KEYS, TASKS, DecodeConfig, ModelConfig, Recipe, TrainConfig
from pellucid.config.model import DROPOUTS
from pellucid.config.tables import split_override, toml_line
from pellucid.errors import ConfigError
from pellucid.files.reading import sha256_of
from pellucid.model.parts import Parts
from pellucid.planning import rules
from pellucid.tasks.languages import are_own_tags, check_languages, speaking
from pellucid.tasks.task import model_folder, tokenizers_of
from pellucid.text.further_pieces import check_appendable
from pellucid.text.numbered import NumberedSubwords
from pellucid.text.tokenizer import OWN_KIND
from pellucid.text.tokenizers import Tokenizers
from pellucid.training.schedule import peak_rate
from pellucid.weights.folder import WEIGHTS, SavedModel, is_described, read_config
from pellucid.weights.opening import open_folder

OF_HEADS = ("classifier_activation", "pooling")
"""Settings of a classifier's head: where the model to start from has none, the recipe's count."""
FOREIGN_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
OF_THE_RECIPE = ("n_best", "batch_tokens", "max_source_length")
"""Settings of [decode] that are not taken from the model to start from."""
OF_TOKENIZERS = ("tokenizer", "vocab_size", "joint", "lowercase", "min_frequency", "byte_fallback")

Languages = tuple[str | None, str | None]
"""The codes of source and target, for a model of many languages."""


@dataclass(frozen=True)
class Start:
    """A trained model that a run begins with, read and hashed once."""

    folder: Path
    model: SavedModel
    digest: str
    """The SHA-256 of its weights."""

    @classmethod
    def read(cls, folder: Path, parts: Parts | None = None, tokenizer: Tokenizers | None = None) -> Self:
        """Reads the model of a folder. Raises CheckpointError where there is none, or it is damaged.

        Args:
            parts: those of the run, which a model that was saved with parts is opened with; the tokenizer likewise.
        """
        table = read_config(folder) if (parts or tokenizer) is not None and is_described(folder) else {}
        own = "own" in table.get("tokenizer", {})
        model = open_folder(
            folder, torch.device("cpu"), parts=parts if "parts" in table else None, tokenizer=tokenizer if own else None
        )
        return cls(folder, model, weights_digest(folder))

    @classmethod
    def of(cls, recipe: Recipe, parts: Parts | None = None, tokenizer: Tokenizers | None = None) -> Self:
        """Reads the model that a recipe names. Raises CheckpointError, ConfigError where it cannot begin with that."""
        start = cls.read(model_folder(recipe.train.init_from), parts, tokenizer)
        start.check(recipe)
        return start

    def check(self, recipe: Recipe) -> None:
        """Raises ConfigError where the model cannot learn the recipe's task, or has other weights than it names.

        Raises CheckpointError where it has no tokenizer.
        """
        saved, folder = self.model, self.folder
        task = TASKS[recipe.task]
        if saved.task not in task.starts_from:
            raise ConfigError(
                f'`{folder}` holds a model of another family: `task = "{recipe.task}"` needs {task.stacks}, and '
                f"it has {saved.model.config.num_encoder_layers} encoder and {saved.model.config.num_decoder_layers} "
                "decoder layers",
                "choose another recipe, or another model to start from",
            )
        tokenizers_of(saved, folder)
        if recipe.train.init_sha256 not in ("", self.digest):
            raise ConfigError(
                f"`train.init_sha256` is {recipe.train.init_sha256}, but the weights in `{folder}` have {self.digest}",
                "name the folder with the weights that the recipe means, or leave `init_sha256` out",
            )


def with_start(
    recipe: Recipe,
    run: Path | None,
    stored: Recipe | None,
    *,
    overrides: Sequence[str] = (),
    languages: Languages = (None, None),
    parts: Parts | None = None,
    tokenizer: Tokenizers | None = None,
    known: Start | None = None,
) -> tuple[Recipe, Start | None]:
    """Returns the recipe with what it takes from the model that it starts from, and that model; most have none.

    It takes the shape, the tokenizer's kind, the SHA-256 of the weights, and of [decode] what the recipe leaves at its
    defaults. Where the model's folder is gone, a run that began with it knows these, and the model is None.

    Args:
        run: the run's own folder, if it has one.
        stored: the recipe of a run there that is gone on with.
        overrides: the `section.key=value` settings among the recipe's, which must not contradict the model.
        languages: what the texts are in; None: what the model translates between by default.
        parts: those of the run, in place of Pellucid's.
        tokenizer: the one that the model was trained with, where its folder does not hold it.
        known: a start that was read before.

    Raises CheckpointError where there is no model; ConfigError for a setting that contradicts it, for weights that
    `init_sha256` does not mean, for the run's own folder, a run that began otherwise, or languages that are unknown,
    missing or of no use.
    """
    if not recipe.train.init_from:
        if languages != (None, None):
            raise ConfigError(
                f"languages are given (`{'` and `'.join(filter(None, languages))}`), but no model that knows any",
                "name one with `init_from=`, or leave them out",
            )
        if recipe.data.add_language:
            codes = ", ".join(recipe.data.files("add_language"))
            raise ConfigError(
                f"`data.add_language` has {codes}, but no model is named to add it to",
                "name one with `init_from=`; a new model learns all languages that its corpora are in",
            )
        _check_began_so(run, stored, recipe)
        return recipe, None
    name = recipe.train.init_from
    # A run that began with the model does without its folder, and nothing is fetched for it.
    began_with = stored is not None and stored.train.init_from == name
    folder = Path(name) if began_with else model_folder(name)
    if run is not None and folder.resolve() == run.resolve():
        raise ConfigError(
            f"`{folder}` cannot be the model to start from and the run's own folder", "choose another `out=`"
        )
    given = {key for section, key, _ in (split_override(each, KEYS) for each in overrides) if section == "decode"}
    start, kinds = None, tuple[str, ...]()
    if began_with and not folder.exists():
        assert stored is not None
        assert run is not None
        shape, kinds, digest = stored.model, (stored.data.tokenizer,), stored.train.init_sha256
        decode = _own_decode(stored.decode, recipe.decode, given)
        if languages != (None, None):
            table = read_config(run)
            tokenizers = Tokenizers.load(run, table["tokenizer"], tokenizer)
            pairs = table.get("text", {}).get("pairs", ())
            decode = speaking(decode, shape, tokenizers, table.get("languages", {}), *languages, pairs)
    else:
        start = known if known is not None and known.folder == folder else Start.read(folder, parts, tokenizer)
        start.check(recipe)
        saved, digest = start.model, start.digest
        assert saved.tokenizers is not None
        shape, kinds = saved.model.config, (saved.tokenizers.source.kind, saved.tokenizers.target.kind)
        decode = _own_decode(saved.decode, recipe.decode, given)
        if recipe.data.tgt_lang and languages != (None, None):
            raise ConfigError(
                f"languages are given (`{'` and `'.join(filter(None, languages))}`), and `data.tgt_lang` "
                f"({', '.join(recipe.data.files('tgt_lang'))}) names those of each corpus",
                "leave one of them out",
            )
        pairs = () if saved.text is None else saved.text.pairs
        _check_added(recipe, start)
        if recipe.data.tgt_lang:  # a tag stands before each source
            decode = replace(decode, source_prefix=())
        else:
            decode = speaking(decode, shape, saved.tokenizers, saved.languages, *languages, pairs)
        if recipe.task == "translate" and not recipe.data.tgt_lang:
            check_languages(decode, shape, saved.tokenizers, saved.languages)
    if tokenizer is not None and OWN_KIND not in kinds:
        raise has_no_effect(folder)
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


def has_no_effect(folder: Path | str) -> ConfigError:
    """Returns what is raised for a tokenizer that is given where a model brings its own."""
    return ConfigError(f"`tokenizer=` has no effect: the tokenizer is that of `{folder}`", "leave it out")


def with_gentle_rate(recipe: Recipe, given: Collection[str], stored: Recipe | None) -> Recipe:
    """Returns the recipe with a rate for trained weights: a twentieth of that for random ones, after a short warm-up.

    Where a language is added the rate stays, after the same warm-up: most of what it needs is new. The paper's schedule
    has no rate of its own to lower; it becomes the same curve with one.

    Args:
        given: the settings, as `section.key`, that the user has named, which stay.
        stored: the recipe of the run that is gone on with; where that has the undivided rates, as earlier versions
            began it, they stay.
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
        changes["learning_rate"] = peak_rate(train, recipe.model.d_model) / gentler
        if "train.final_learning_rate" not in given:
            changes["final_learning_rate"] = train.final_learning_rate / gentler
        if train.optimizer == "muon" and "train.muon_learning_rate" not in given:
            changes["muon_learning_rate"] = train.muon_learning_rate / gentler
        if train.schedule == "noam":
            changes["schedule"] = "inverse_sqrt"
    return replace(recipe, train=replace(train, **changes))


def _rates(train: TrainConfig) -> tuple[str, float | None, int]:
    return train.schedule, train.learning_rate, train.warmup_steps


def _own_decode(own: DecodeConfig, recipe: DecodeConfig, given: Collection[str]) -> DecodeConfig:
    """Returns the model's own settings, but for those that the recipe sets, or an override gives (`given`)."""
    default = DecodeConfig()
    kept = {
        f.name: getattr(own, f.name)
        for f in fields(DecodeConfig)
        if f.name not in (*OF_THE_RECIPE, *given) and getattr(recipe, f.name) == getattr(default, f.name)
    }
    return replace(recipe, **kept)


def _check_began_so(run: Path | None, stored: Recipe | None, asked: Recipe) -> None:
    """Raises ConfigError where the run in the folder began with other weights."""
    if stored is not None and stored.train.init_sha256 != asked.train.init_sha256:
        before, now = (
            f"the weights of `{r.train.init_from}` (SHA-256 {r.train.init_sha256})"
            if r.train.init_from
            else "random weights"
            for r in (stored, asked)
        )
        raise ConfigError(
            f"the run in `{run}` began with {before}, this command begins with {now}",
            "repeat the command that began it, choose another `out=`, or start over with `fresh=True`",
        )


def _check_added(recipe: Recipe, start: Start) -> None:
    """Raises ConfigError for languages to add that the model knows, or whose pieces its tokenizers cannot be given."""
    saved, added = start.model, recipe.data.files("add_language")
    if not added:
        return
    pairs = () if saved.text is None else saved.text.pairs
    known = {*saved.languages, *(code for pair in pairs for code in pair.split("-"))}
    if again := [code for code in added if code in known]:
        raise ConfigError(
            f"`data.add_language` has {', '.join(again)}, which `{start.folder}` knows already",
            "leave it out: a recipe with `data.tgt_lang` goes on with what a model knows",
        )
    _check_extensible(start)


def _check_extensible(start: Start) -> None:
    """Raises ConfigError for a model to which no language can be added."""
    tokenizers, config = start.model.tokenizers, start.model.model.config
    assert tokenizers is not None
    sides = (tokenizers.source, tokenizers.target)
    if not all(isinstance(side, NumberedSubwords) for side in sides):
        for tokenizer in sides:
            check_appendable(tokenizer)
        return
    if start.model.languages and not are_own_tags(tokenizers, start.model.languages):
        raise ConfigError(
            f"`{start.folder}` has codes of its own for {len(start.model.languages)} languages, and no place for a tag",
            "train it on a pair that it knows, as that of the nearest language, or a model of all languages anew",
        )
    if (config.src_vocab_size, config.tgt_vocab_size) != tuple(side.size for side in sides):
        raise ConfigError(
            f"`{start.folder}` has {config.src_vocab_size:,} and {config.tgt_vocab_size:,} ids, and its tokenizers "
            f"{sides[0].size:,} and {sides[1].size:,}: a tag would not be the next one",
            "train a model of all languages anew",
        )


def _check_settings(overrides: Sequence[str], shape: ModelConfig, folder: Path) -> None:
    """Raises ConfigError for a setting of the model's shape that contradicts the model, or one of the tokenizer."""
    for override in overrides:
        section, key, value = split_override(override, KEYS)
        if section == "data" and key in OF_TOKENIZERS:
            raise ConfigError(
                f"`overrides={override}` has no effect: the tokenizer is that of `{folder}`", "leave the setting out"
            )
        if section != "model" or key in DROPOUTS or (key in OF_HEADS and not shape.num_classes):
            continue
        own = "a shape of its own" if key == "preset" else f"`{toml_line(key, getattr(shape, key, None))}`"
        if own != f"`{toml_line(key, value)}`":
            raise ConfigError(
                f"`overrides={override}` contradicts `{folder}`, which has {own}",
                "leave the setting out, or train from the start, without `init_from=`",
            )


def weights_digest(folder: Path) -> str:
    """Returns the SHA-256 of a folder's weights; of several files, as foreign folders may have them, that of all."""
    if (folder / WEIGHTS).is_file():
        return sha256_of(folder / WEIGHTS)
    files = sorted(path for pattern in FOREIGN_WEIGHTS for path in folder.glob(pattern))
    if len(files) == 1:
        return sha256_of(files[0])
    return hashlib.sha256("".join(f"{path.name} {sha256_of(path)}\n" for path in files).encode()).hexdigest()
