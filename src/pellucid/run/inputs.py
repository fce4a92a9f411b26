"""The inputs of a training run: texts, tokenizers, a plan, and the shape and initial weights of the model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import torch

from pellucid.config import ModelConfig, Recipe
from pellucid.data.continuous_text import ContinuousText
from pellucid.data.dataset_cache import DatasetCache
from pellucid.data.labels import Labels
from pellucid.data.locate import resolve_paths
from pellucid.data.prepare import (
    Corpus,
    check_same_texts,
    make_texts_changed_error,
    open_corpus,
    train_tokenizers,
)
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.decoding.ids import check_decoding_ids
from pellucid.errors import CheckpointError, ConfigError
from pellucid.model.families import Model, build_model
from pellucid.model.initialisation import scale_embeddings
from pellucid.model.parts import Parts
from pellucid.planning.budget import Plan, plan_budget, set_vocab_size
from pellucid.planning.settings import check_settings, compute_max_tokens, find_model_config, make_subword_sampling
from pellucid.process import keep_freed_memory
from pellucid.run.add_language import extend_embeddings, extend_tokenizers
from pellucid.run.folder import RunFolder
from pellucid.run.init_from import InitialModel
from pellucid.run.repair import find_missing_file
from pellucid.run.resume import check_tokenizer
from pellucid.run.settings import RunSettings
from pellucid.tasks.languages import find_language_tag_ids
from pellucid.text.tokenizers import TokenizerPair
from pellucid.training.ranks import DistributedContext
from pellucid.weights.folder import is_pellucid_folder, read_config
from pellucid.weights.tensors import parameters, set_parameters

CLASSES = "head.class_projection."
"""The prefix of the classifier's output parameters."""


@dataclass(frozen=True)
class TrainingInputs:
    """The inputs of a run, before its folder is written."""

    recipe: Recipe
    """All settings, after planning if there is a time budget."""
    plan: Plan | None
    corpus: Corpus | ContinuousText
    tokenizers: TokenizerPair
    labels: tuple[str, ...]
    """The classes of a classifier."""
    languages: Mapping[str, int]
    """The ids of the target language codes of a multilingual model."""
    sampling: SubwordSampling | None
    config: ModelConfig
    start: InitialModel | None
    """The model that the weights are initialized from; None: random weights, or a checkpoint's."""
    damage: str
    """A description of the damage to the files that describe a resumed run's model; empty if there is none."""

    @property
    def weights_key(self) -> tuple[object, ...]:
        """Returns the values that determine the initial weights."""
        train = self.recipe.train
        start = train.init_from, train.init_sha256
        return self.config, train.seed, train.embedding_init_scale, start, self.labels


def read_inputs(
    settings: RunSettings,
    run: RunFolder | None,
    device: torch.device,
    ranks: DistributedContext,
    log_line: Callable[[str], None],
) -> TrainingInputs:
    """Reads the texts, trains the tokenizers and makes the plan. Writes nothing.

    Args:
        run: the folder of a run that is resumed, which has its tokenizers and labels.

    Raises ConfigError, DataError, CheckpointError for texts or settings that cannot be trained with.
    """
    recipe, corpus = _open_corpus(settings, run, log_line)
    log_line(corpus.report())
    keep_freed_memory()
    request, plan = settings.request, settings.plan
    if request is not None:
        assert isinstance(corpus, Corpus)  # a budget requires a translator
        recipe = set_vocab_size(recipe, request.fixed, corpus)
        corpus = replace(corpus, data=recipe.data)
    damage = find_missing_file(run) if run is not None else ""
    if damage:
        log_line(
            f"{damage}; rebuilding it from the {'initial model' if recipe.train.init_from else 'texts'} of the run"
        )
    start = _read_start(settings, recipe, run, damage)
    if start is not None and recipe.data.add_language:
        assert isinstance(corpus, Corpus)  # only translators have languages
        start = extend_embeddings(start, *ranks.broadcast_result(partial(extend_tokenizers, start, corpus, log_line)))
    described = run.path if run is not None and not damage and is_pellucid_folder(run.path) else None
    tokenizers = _find_tokenizers(settings, corpus, start, described, ranks, log_line)
    labels = _find_labels(corpus, start, described) if recipe.task == "classify" else ()
    languages: Mapping[str, int] = read_config(described).get("languages", {}) if described else {}
    if start is not None:
        languages = start.model.languages
    if recipe.data.tgt_lang:
        languages = find_language_tag_ids(recipe.data, tokenizers, languages)
    sampling = make_subword_sampling(recipe, tokenizers)
    if request is not None and isinstance(corpus, Corpus):
        # Only rank 0 measures and plans.
        make_plan = partial(
            plan_budget, recipe, request, corpus, tokenizers, sampling, device, settings.parts, ranks.world_size
        )
        plan = ranks.broadcast_result(make_plan)
        recipe = plan.recipe
    check_settings(recipe)
    if recipe.task != "classify" and isinstance(corpus, Corpus):  # a classifier's texts are truncated elsewhere
        corpus = replace(corpus, data=replace(corpus.data, max_length=compute_max_tokens(recipe)))
    config = find_model_config(recipe, tokenizers, labels)
    check_decoding_ids(recipe.decode, config)
    if run is not None and run.has_trained:
        check_same_texts(corpus, tokenizers, run.path / "data", run.origin.get("corpus", ""))
    plan = None if plan is None else replace(plan, recipe=recipe)
    return TrainingInputs(recipe, plan, corpus, tokenizers, labels, languages, sampling, config, start, damage)


def make_model(inputs: TrainingInputs, parts: Parts | None) -> Model:
    """Returns the initial model: with random weights from the seed, or with the weights of `init_from`."""
    train, start = inputs.recipe.train, inputs.start
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(train.seed)
        model = build_model(inputs.config, parts)
    if train.embedding_init_scale != 1:
        scale_embeddings(model, train.embedding_init_scale)
    if start is not None:
        tensors = parameters(start.model.model)
        if inputs.labels and start.model.labels != inputs.labels:  # the projection to other classes is new
            tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(CLASSES)}
            tensors = parameters(model) | tensors
        set_parameters(model, tensors, f"`{train.init_from}`")
    return model


def _open_corpus(
    settings: RunSettings, run: RunFolder | None, log_line: Callable[[str], None]
) -> tuple[Recipe, Corpus | ContinuousText]:
    """Returns the corpus, and the recipe with the paths where its texts were found."""
    recipe, texts = settings.recipe, settings.texts
    if not texts:
        if run is not None and not recipe.data.src and run.has_given_data:
            raise ConfigError(
                f"the run in `{run.path}` was started with texts passed in memory, and none are given",
                "resume it with the script that started it: pellucid.Run(..., data=...)",
            )
        recipe = replace(recipe, data=resolve_paths(recipe.data, settings.data_dir, fetch=not settings.offline))
    prepared = None if texts else DatasetCache.for_settings(recipe.data, log_line)
    if prepared is not None and run is not None and run.has_trained:
        changed = run.find_changed_texts(recipe.data, digests=prepared.digests)
        if changed:  # an error before hours are spent on the changed texts
            raise make_texts_changed_error(run.path, changed)
    return recipe, open_corpus(recipe.data, recipe.task, texts, prepared)


def _read_start(settings: RunSettings, recipe: Recipe, run: RunFolder | None, damage: str) -> InitialModel | None:
    """Returns the model of `init_from`, if its weights or a lost description are needed.

    Returns None for a run that starts from random weights, or has its first checkpoint already. Raises CheckpointError
    if the model is needed and missing.
    """
    if not recipe.train.init_from:
        return None
    if run is not None and not damage and run.has_checkpoints:
        return None
    if settings.start is not None:
        return settings.start
    try:
        return InitialModel.from_recipe(recipe, settings.parts, settings.tokenizers)
    except CheckpointError as error:
        if not damage:
            raise
        raise CheckpointError(
            f"{damage}, and it cannot be rebuilt: {error}",
            f"copy the model `{recipe.train.init_from}` back, or start over with `fresh=True`",
        ) from error


def _find_tokenizers(
    settings: RunSettings,
    corpus: Corpus | ContinuousText,
    start: InitialModel | None,
    described: Path | None,
    ranks: DistributedContext,
    log_line: Callable[[str], None],
) -> TokenizerPair:
    """Returns the tokenizers of the caller, of the initial model, of a resumed run's folder, or new ones."""
    if settings.tokenizers is not None:
        return settings.tokenizers
    if start is not None and start.model.tokenizers is not None:
        return start.model.tokenizers
    if described is not None:
        check_tokenizer(described, settings.tokenizers)
        return TokenizerPair.load(described, read_config(described)["tokenizer"])
    data = corpus.data
    log_line(f"training the tokenizer ({data.tokenizer})")
    tokenizers = ranks.broadcast_result(partial(train_tokenizers, corpus, log_line))
    sizes = " and ".join(f"{size:,}" for size in sorted({tokenizers.source.size, tokenizers.target.size}))
    bounds = {data.vocab_size, (not data.joint_vocab and data.tgt_vocab_size) or data.vocab_size}
    log_line(f"vocabulary: {sizes} (upper bound {' and '.join(f'{bound:,}' for bound in sorted(bounds))})")
    return tokenizers


def _find_labels(
    corpus: Corpus | ContinuousText, start: InitialModel | None, described: Path | None
) -> tuple[str, ...]:
    """Returns the classes in the order of the run's folder, of the initial model if it has all, or of the alphabet."""
    if described is not None:
        return tuple(read_config(described)["labels"])
    # The held-out part of the training text may contain all texts of a rare label.
    cut_off = [] if corpus.data.valid_src or "valid" in corpus.given else corpus.valid
    found = Labels.from_targets(label for _, label in chain(corpus.train(), cut_off)).names
    return start.model.labels if start is not None and {*found} <= {*start.model.labels} else found
