"""The plan that a run with a time budget began with: kept in its folder, so that the same command finds it again."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from pellucid.config import KEYS, Recipe
from pellucid.errors import ConfigError
from pellucid.tables import split_override
from pellucid.weights.files import write_text
from pellucid.workflow.budget import SHAPE_KEYS, Plan
from pellucid.workflow.duration import parse_duration, say_duration
from pellucid.workflow.locate import TEXT_FIELDS
from pellucid.workflow.run_folder import PLAN, RunFolder


@dataclass(frozen=True)
class Request:
    """What a command with a budget asks for; where its texts lie is no part of it."""

    seconds: float
    settings: tuple[str, ...]
    """The `section.key=value` settings that win over the plan."""
    recipe: str
    """A digest of the recipe before the plan."""
    started: float = field(default=0.0, compare=False)
    """When the budget began to run, as time.perf_counter() counts."""
    starts_from: str = field(default="", compare=False)
    """The folder of the model whose shape and vocabulary stay, where training starts from one."""

    @classmethod
    def of(cls, recipe: Recipe, budget: str, settings: Sequence[str], started: float | None = None) -> Self:
        """The request to train `recipe`, with these settings in it, for as long as `budget` says.

        Raises ConfigError where that is no length of time.
        """
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
        )

    @property
    def fixed(self) -> frozenset[str]:
        """The settings, as `section.key`, that a plan leaves alone."""
        of_start = SHAPE_KEYS | {"model.norm", "data.vocab_size"} if self.starts_from else frozenset()
        return of_start | {_key(setting) for setting in self.settings}

    def __str__(self) -> str:
        return " ".join([f"--budget {say_duration(self.seconds)}", *(f"--set {setting}" for setting in self.settings)])


def stored_plan(run: RunFolder, request: Request) -> Recipe | None:
    """The recipe that the run in the folder was planned to, for the same request; None where nothing has trained yet.

    Raises ConfigError where the run has trained for another request, or for none.
    """
    if run.recipe is None:
        return None
    stored = _read(run)
    if stored == request:
        return run.recipe
    if stored is None:
        began = "without a budget"
    else:
        began = f"with `{stored}`" if str(stored) != str(request) else "from another recipe"
    raise ConfigError(
        f"the run in `{run.path}` began {began}, this command says `{request}`",
        "repeat the command that began it, choose another `--out`, or start over with --fresh",
    )


def save_plan(run: RunFolder, plan: Plan, request: Request) -> None:
    """Writes the plan down, before anything is trained."""
    table = {
        "request": {"seconds": request.seconds, "settings": request.settings, "recipe": request.recipe},
        "facts": asdict(plan.facts),
        "tokens_per_second": {name: round(pace.tokens_per_second) for name, pace in plan.paces.items()},
        "tokens": round(plan.tokens),
        "expected_bleu": round(plan.expected_bleu, 1),
        "plan": str(plan).splitlines(),
    }
    write_text(run.path / PLAN, json.dumps(table, indent=2) + "\n")


def _read(run: RunFolder) -> Request | None:
    """The request that the run in the folder was planned for; None where it was planned for none."""
    try:
        table = json.loads((run.path / PLAN).read_text(encoding="utf-8"))["request"]
        return Request(table["seconds"], tuple(table["settings"]), table["recipe"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _key(setting: str) -> str:
    section, key, _ = split_override(setting, KEYS)
    return f"{section}.{key}"
