"""The request of a command with a time budget: the time, the settings and the recipe."""

import hashlib
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pellucid.config import KEYS, Recipe
from pellucid.config.tables import rename_override, split_override
from pellucid.data.locate import TEXT_FIELDS
from pellucid.errors import ConfigError
from pellucid.planning.duration import format_duration, parse_duration
from pellucid.planning.rules import NORM_KEYS, SHAPE_KEYS, VOCABULARY_KEYS


@dataclass(frozen=True)
class PlanRequest:
    """The request that a plan is made for. Equality ignores the paths of the texts."""

    seconds: float
    settings: tuple[str, ...]
    """The `section.key=value` settings that replace the plan's."""
    recipe: str
    """The SHA-256 of the recipe before the plan."""
    started: float = field(default=0.0, compare=False)
    """The start of the budget, by time.perf_counter()."""
    starts_from: str = field(default="", compare=False)
    """The folder of the initial model, if any, whose shape and vocabulary are kept."""
    of_recipe: tuple[str, ...] = field(default=(), compare=False)
    """Settings, as `section.key`, that keep the recipe's values; they are compared by the recipe's SHA-256."""

    @classmethod
    def from_recipe(
        cls,
        recipe: Recipe,
        budget: str,
        settings: Sequence[str],
        started: float | None = None,
        of_recipe: Collection[str] = (),
    ) -> Self:
        """Makes the request to train `recipe`, which includes these settings, within `budget`.

        Raises ConfigError if the budget is not a duration, or if the recipe does not train a translator.
        """
        if recipe.task != "translate":
            raise ConfigError(
                f'`budget=` is for translators, but the recipe has `task = "{recipe.task}"`',
                "leave `budget=` out: the settings of the recipe determine the training time",
            )
        nowhere: dict[str, Any] = dict.fromkeys(TEXT_FIELDS, "")
        text = replace(recipe, data=replace(recipe.data, **nowhere), train=replace(recipe.train, init_from="")).to_toml(
            old_names=True
        )
        return cls(
            parse_duration(budget),
            tuple(
                sorted(
                    map(rename_override, (each for each in settings if _key(each).removeprefix("data.") not in nowhere))
                )
            ),
            hashlib.sha256(text.encode()).hexdigest(),
            time.perf_counter() if started is None else started,
            recipe.train.init_from,
            tuple(sorted(of_recipe)),
        )

    @property
    def fixed(self) -> frozenset[str]:
        """The settings, as `section.key`, that a plan does not change."""
        of_start = SHAPE_KEYS | NORM_KEYS | VOCABULARY_KEYS if self.starts_from else frozenset()
        return of_start | {*self.of_recipe} | {_key(setting) for setting in self.settings}

    @property
    def fixed_text(self) -> str:
        """The fixed settings for display: their keys, and for the shape the initial model."""
        keys = sorted({*self.of_recipe} | {_key(setting) for setting in self.settings})
        return ", ".join([*([f"the shape of {self.starts_from}"] if self.starts_from else []), *keys])

    @property
    def seconds_left(self) -> float:
        """Returns the seconds of the budget that are left."""
        return max(0.0, self.seconds - (time.perf_counter() - self.started))

    def __str__(self) -> str:
        return " ".join(
            [f"`budget={format_duration(self.seconds)}`", *(f"`overrides={setting}`" for setting in self.settings)]
        )


def _key(setting: str) -> str:
    section, key, _ = split_override(setting, KEYS)
    return f"{section}.{key}"
