"""The request of a command with a time budget: so long, with these settings, from that recipe."""

import hashlib
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pellucid.config import KEYS, Recipe
from pellucid.config.tables import split_override
from pellucid.data.locate import TEXT_FIELDS
from pellucid.errors import ConfigError
from pellucid.planning.duration import parse_duration, say_duration
from pellucid.planning.rules import NORM_KEYS, SHAPE_KEYS, VOCABULARY_KEYS


@dataclass(frozen=True)
class Request:
    """Says what a plan is made for. Two are equal that ask for the same, wherever the texts lie."""

    seconds: float
    settings: tuple[str, ...]
    """The `section.key=value` settings that win over the plan."""
    recipe: str
    """A digest of the recipe before the plan."""
    started: float = field(default=0.0, compare=False)
    """The time when the budget began to run, as time.perf_counter() counts."""
    starts_from: str = field(default="", compare=False)
    """The folder of the model whose shape and vocabulary stay, where training starts from one."""
    of_recipe: tuple[str, ...] = field(default=(), compare=False)
    """Settings, as `section.key`, that stay as the recipe has them; the recipe's digest tells them apart."""

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        budget: str,
        settings: Sequence[str],
        started: float | None = None,
        of_recipe: Collection[str] = (),
    ) -> Self:
        """Makes the request to train `recipe`, with these settings in it, for as long as `budget` says.

        Raises ConfigError where that is not a length of time, or something else than a translator is to be trained.
        """
        if recipe.task != "translate":
            raise ConfigError(
                f'`budget=` plans translators, and the recipe has `task = "{recipe.task}"`',
                "leave `budget=` out: the recipe's own settings say how long training takes",
            )
        nowhere: dict[str, Any] = dict.fromkeys(TEXT_FIELDS, "")
        text = replace(
            recipe, data=replace(recipe.data, **nowhere), train=replace(recipe.train, init_from="")
        ).to_toml()
        return cls(
            parse_duration(budget),
            tuple(sorted(setting for setting in settings if _key(setting).removeprefix("data.") not in nowhere)),
            hashlib.sha256(text.encode()).hexdigest(),
            time.perf_counter() if started is None else started,
            recipe.train.init_from,
            tuple(sorted(of_recipe)),
        )

    @property
    def fixed(self) -> frozenset[str]:
        """The settings, as `section.key`, that a plan leaves alone."""
        of_start = SHAPE_KEYS | NORM_KEYS | VOCABULARY_KEYS if self.starts_from else frozenset()
        return of_start | {*self.of_recipe} | {_key(setting) for setting in self.settings}

    @property
    def given(self) -> str:
        """The fixed settings for a reader: by their keys, the shape by the model that has it."""
        keys = sorted({*self.of_recipe} | {_key(setting) for setting in self.settings})
        return ", ".join([*([f"the shape of {self.starts_from}"] if self.starts_from else []), *keys])

    @property
    def seconds_left(self) -> float:
        """Returns what is left of the budget now."""
        return max(0.0, self.seconds - (time.perf_counter() - self.started))

    def __str__(self) -> str:
        return " ".join(
            [f"`budget={say_duration(self.seconds)}`", *(f"`overrides={setting}`" for setting in self.settings)]
        )


def _key(setting: str) -> str:
    section, key, _ = split_override(setting, KEYS)
    return f"{section}.{key}"
