"""The settings of a run: the arguments of `pellucid.Run`, and the decisions before texts are read."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from pellucid.config import KEYS, Recipe
from pellucid.config.tables import split_override
from pellucid.config.train import Precision
from pellucid.data.in_memory import InMemoryText, load_in_memory_texts
from pellucid.data.locate import TEXT_FIELDS
from pellucid.model.parts import Parts
from pellucid.planning.budget import Plan
from pellucid.planning.request import PlanRequest
from pellucid.run.folder import RunFolder
from pellucid.run.init_from import InitialModel, Languages, apply_finetuning_rate, apply_initial_model
from pellucid.text.tokenizers import TokenizerPair
from pellucid.training import precision
from pellucid.training.ranks import DistributedContext
from pellucid.training.trackers import select_trackers


@dataclass(frozen=True)
class RunSettings:
    """Holds the arguments of a run, and its recipe, which `decide_settings` completes."""

    recipe: Recipe
    parts: Parts | None = None
    tokenizers: TokenizerPair | None = None
    """Tokenizers passed by the caller; None: they are trained, or taken from the initial model."""
    data: Any = None
    """Texts passed by the caller, as to `Run`; None: the recipe's files."""
    data_dir: str | Path | None = None
    offline: bool = False
    languages: Languages = (None, None)
    fresh: bool = False
    """An earlier run in the folder is ignored, and removed when training begins."""
    started: float = field(default_factory=time.perf_counter)
    """The start of a time budget, by time.perf_counter()."""
    texts: Mapping[str, InMemoryText] = field(default_factory=dict)
    """The parts of `data`, by name."""
    start: InitialModel | None = None
    """The model that `train.init_from` names, if its folder was read."""
    request: PlanRequest | None = None
    """The request for a plan, of a run with a time budget that has no plan yet."""
    plan: Plan | None = None
    """An earlier plan, whose recipe the caller has replaced."""


def decide_settings(
    settings: RunSettings,
    folder: RunFolder | None,
    device: torch.device,
    ranks: DistributedContext,
    *,
    overrides: Sequence[str] = (),
    init_from: str | Path = "",
    budget: str = "",
    of_recipe: Collection[str] = (),
) -> RunSettings:
    """Returns the settings after all decisions without texts: initial model, learning rate, plan request and precision.

    Args:
        folder: the run's folder, if it has one.
        of_recipe: settings, as `section.key`, that a budget leaves at the recipe's values.

    Raises ConfigError, CheckpointError for settings and initial models that cannot be used.
    """
    stored = None if settings.fresh or folder is None else folder.recipe
    recipe = settings.recipe
    if init_from:
        recipe = replace(recipe, train=replace(recipe.train, init_from=str(init_from)))
    recipe, start = apply_initial_model(
        recipe, folder.path if folder else None, stored, overrides=overrides, languages=settings.languages,
        parts=settings.parts, tokenizer=settings.tokenizers, known=settings.start,
    )  # fmt: skip
    given = {f"{section}.{key}" for section, key, _ in (split_override(each, KEYS) for each in overrides)}
    # A recipe with `init_from` has rates for fine-tuning; with a budget the plan sets them.
    if recipe.train.init_from and not budget and (init_from or "train.init_from" in given):
        recipe = apply_finetuning_rate(recipe, given, stored)
    request = PlanRequest.from_recipe(recipe, budget, overrides, settings.started, of_recipe) if budget else None
    if request is not None and stored is not None and folder is not None:
        planned = folder.find_planned(request)
        if planned is not None:
            texts: dict[str, Any] = {name: getattr(recipe.data, name) for name in TEXT_FIELDS}
            recipe, request = replace(planned, data=replace(planned.data, **texts)), None
    if recipe.train.precision == "auto":  # the precision of the run in the folder, otherwise measured

        def measure() -> Precision:
            return "float32" if precision.get_precision_warning(device) else "bfloat16"

        chosen = stored.train.precision if stored is not None else ranks.broadcast_result(measure)
        recipe = replace(recipe, train=replace(recipe.train, precision=chosen))
    select_trackers(recipe.train.report_to)  # an error about a missing package comes before texts are read
    return apply_given(replace(settings, recipe=recipe, start=start, request=request))


def apply_given(settings: RunSettings) -> RunSettings:
    """Returns the settings with the caller's texts and tokenizers in place of the recipe's.

    Raises ConfigError for `data` that cannot be read several times.
    """
    given: dict[str, Any] = {}
    if settings.data is not None:
        given = dict.fromkeys(TEXT_FIELDS, "")
    if settings.tokenizers is not None:
        given["tokenizer"] = settings.tokenizers.source.kind
    recipe = replace(settings.recipe, data=replace(settings.recipe.data, **given))
    texts: Mapping[str, InMemoryText] = {}
    if settings.data is not None:
        texts = load_in_memory_texts(settings.data, recipe.data, recipe.task, recipe.languages)
    return replace(settings, recipe=recipe, texts=texts)
