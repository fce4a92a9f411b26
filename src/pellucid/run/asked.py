"""What a command asks for: its recipe with all that can be known of it before a text is opened, and where it goes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch

from pellucid.config import KEYS, Recipe
from pellucid.config.tables import split_override
from pellucid.data.locate import TEXT_FIELDS, locate
from pellucid.planning.request import Request
from pellucid.run.folder import RunFolder
from pellucid.run.planned import stored_plan
from pellucid.run.start import Languages, with_gentle_rate, with_start
from pellucid.tasks.task import find_device
from pellucid.training import precision


@dataclass(frozen=True)
class Asked:
    """A command, as far as its settings and its folder decide it. Nothing is written, no text is read."""

    recipe: Recipe
    run: RunFolder
    fresh: bool
    """Whether an earlier run in the folder counts for nothing."""
    device: torch.device
    started: float
    """When the command began, as time.perf_counter() counts."""
    request: Request | None
    """What is to be planned; None: the recipe is the plan."""

    @classmethod
    def of(
        cls,
        recipe: Recipe | str | Path,
        run: RunFolder,
        *,
        overrides: Sequence[str],
        init_from: str | Path,
        budget: str,
        device: str,
        languages: Languages = (None, None),
        started: float | None = None,
        fresh: bool = False,
    ) -> Self:
        """The command with these arguments, as pellucid.train takes them. Raises ConfigError for what cannot work."""
        started = time.perf_counter() if started is None else started
        if not isinstance(recipe, Recipe):
            recipe = Recipe.load(recipe, list(overrides))
        target = find_device(device)
        if init_from:
            recipe = replace(recipe, train=replace(recipe.train, init_from=str(init_from)))
        recipe = with_start(recipe, run, fresh, overrides, languages)
        given = {f"{section}.{key}" for section, key, _ in (split_override(each, KEYS) for each in overrides)}
        # A recipe that names its start itself has its rates for that; those of a budget are the plan's.
        if recipe.train.init_from and not budget and (init_from or "train.init_from" in given):
            recipe = with_gentle_rate(recipe, given, None if fresh else run.recipe)
        request = Request.of(recipe, budget, overrides, started) if budget else None
        if request is not None and not fresh and (planned := stored_plan(run, request)) is not None:
            texts: dict[str, Any] = {name: getattr(recipe.data, name) for name in TEXT_FIELDS}
            recipe, request = replace(planned, data=replace(planned.data, **texts)), None
        recipe = _with_precision(recipe, None if fresh else run.recipe, target)
        return cls(recipe, run, fresh, target, started, request)

    def with_texts_found(self, data_dir: str | Path | None, offline: bool) -> Self:
        """The same with the paths of its texts, fetched where need be. Raises DataError where one is missing."""
        return replace(self, recipe=replace(self.recipe, data=locate(self.recipe.data, data_dir, fetch=not offline)))


def _with_precision(recipe: Recipe, stored: Recipe | None, device: torch.device) -> Recipe:
    """The recipe with `precision = "auto"` decided: as the run in the folder has it, else by a measurement."""
    if recipe.train.precision != "auto":
        return recipe
    if stored is not None:
        chosen = stored.train.precision
    else:
        chosen = "float32" if precision.warning(device) else "bfloat16"
    return replace(recipe, train=replace(recipe.train, precision=chosen))
