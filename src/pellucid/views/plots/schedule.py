"""Plots the learning rate over the steps, as training computes it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.config import KEYS, RECIPE, Recipe
from pellucid.config.tables import split_override
from pellucid.errors import DataError
from pellucid.training.log import METRICS
from pellucid.training.schedule import UNDECIDED, DecayPlan, learning_rate
from pellucid.views.canvas.chart import Panel, Series, draw_panel
from pellucid.views.canvas.drawing import MARGIN, PAGE, Drawing, picture_width
from pellucid.views.plots.run import read_metrics

MOST_STEPS = 1_000
"""The number of steps at which the rate is computed; a bend is located to within one of them."""

Endings = Mapping[int, DecayPlan]
"""The decay plans of a run, by the steps after which they were decided; empty: the plan of the settings."""


def plot_schedule(
    *recipes: str | Path | Recipe,
    names: Sequence[str] = (),
    settings: Sequence[str] = (),
    title: str = "",
    width: str | float | None = None,
) -> Drawing:
    """Plots the learning rate of each step, by recipes: the name of a shipped one, a file, a run folder, or a Recipe.

    A list of settings is a recipe, too: `model.d_model=512,train.warmup_steps=4000` changes these two defaults. Without
    any recipe the curve shows `settings` alone.

    For a run whose decay began by a time budget or on a plateau, the curve shows the actual rate. `settings`, such as
    `train.warmup_steps=8000`, override every recipe. Raises ConfigError for an unknown recipe.
    """
    shown = picture_width(width)
    page = shown or PAGE
    if not recipes and not settings:
        raise DataError("a schedule requires a recipe: none is given", "name one, or a run, or settings")
    curves: dict[str, tuple[Recipe, Endings]] = {}
    for number, given in enumerate(recipes or (",".join(settings),)):
        recipe, endings = _load(given, settings)
        name = names[number] if number < len(names) else _name(given, recipe)
        curves[name if name not in curves else f"{name} ({number + 1})"] = (recipe, endings)
    lines = tuple(_curve(name, *curve) for name, curve in curves.items())
    panel = Panel(title or "Learning rate", "step", lines, from_zero=True)
    drawing = Drawing(panel.title, _description(curves, lines))
    y = drawing.add_heading("", "", page)
    draw_panel(drawing, panel, MARGIN, y - 4, page - 2 * MARGIN)
    return drawing.finish(shown)


def _load(given: str | Path | Recipe, settings: Sequence[str]) -> tuple[Recipe, Endings]:
    if isinstance(given, Recipe):
        return given, {}
    folder = Path(given)
    if "=" in str(given) and not folder.exists():
        return _make_recipe([*settings, *str(given).split(",")]), {}
    if not (folder / RECIPE).is_file():
        return Recipe.load(given, list(settings)), {}
    lines = read_metrics(folder) if (folder / METRICS).is_file() else []
    decided = [line for line in lines if line["event"] in ("clock", "plateau")]
    endings = {line["step"]: DecayPlan(line.get("falls_at", line["step"]), line["last_step"]) for line in decided}
    return Recipe.load(folder / RECIPE, list(settings)), endings


def _make_recipe(settings: Sequence[str]) -> Recipe:
    """Returns the defaults with these settings."""
    tables: dict[str, Any] = {}
    for section, key, value in (split_override(setting, KEYS) for setting in settings):
        (tables.setdefault(section, {}) if section else tables)[key] = value
    return Recipe.from_tables(tables)


def _name(given: str | Path | Recipe, recipe: Recipe) -> str:
    if isinstance(given, str) and "=" in given and not Path(given).exists():
        return given.replace("model.", "").replace("train.", "").replace(",", ", ")
    return Path(given).name if isinstance(given, str | Path) else recipe.name


def _curve(name: str, recipe: Recipe, endings: Endings) -> Series:
    last = max(endings.items())[1].last_step if endings else recipe.train.steps
    bends = [recipe.train.warmup_steps, *endings]
    steps = np.unique(np.concatenate([np.linspace(1, last, MOST_STEPS), [b for b in bends if b <= last]]).round())

    def find_ending(step: float) -> DecayPlan | None:
        """Returns the decay plan that was known when the step was taken; None: the planned one."""
        before = [decided for decided in endings if decided < step]
        return endings[max(before)] if before else UNDECIDED if endings else None

    rates = [learning_rate(int(step), recipe.train, recipe.model.d_model, find_ending(step)) for step in steps]
    return Series(name, steps, np.array(rates))


def _description(curves: Mapping[str, tuple[Recipe, Endings]], lines: Sequence[Series]) -> str:
    of_each = (
        f"{name}: {recipe.train.schedule}, {recipe.train.warmup_steps} steps of warm-up, at most {line.y.max():.3g}"
        for (name, (recipe, _)), line in zip(curves.items(), lines, strict=True)
    )
    return f"The learning rate of each step. {'; '.join(of_each)}."
