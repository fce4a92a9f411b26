"""Reads the file of a sweep, its settings and seeds, and checks it before anything runs."""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

from pellucid.config import KEYS, TASKS, Recipe
from pellucid.config.tables import rename_setting, rename_settings, suggest_setting, toml_line
from pellucid.data.locate import override_paths
from pellucid.errors import ConfigError, PellucidError, did_you_mean, format_quoted, format_value
from pellucid.files.reading import parse_toml

Metric = Literal["bleu", "chrf", "loss", "bits_per_byte", "accuracy"]
OF_TASK: dict[str, tuple[Metric, ...]] = {
    "translate": ("bleu", "chrf", "loss", "bits_per_byte"),
    "classify": ("accuracy", "loss"),
    "generate": ("bits_per_byte", "loss"),
}
"""The metrics of each task; the first is the default of a file without `metric`."""
KEYS_OF_FILE = (
    "recipe", "out", "src", "tgt", "valid_src", "valid_tgt", "data_dir", "seeds", "jobs", "threads", "metric",
    "beam_size", "set", "grid", "runs",
)  # fmt: skip
TEXTS = KEYS_OF_FILE[2:6]
PLANS = ("grid", "runs")
SEED = "train.seed"
_NAME = re.compile(r"[^\w.=,+-]+")
MOST_RUNS = 10_000


@dataclass(frozen=True)
class Setting:
    """A point of the sweep: the settings that differ from the recipe, and a name."""

    name: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """One training run: a setting with a seed."""

    setting: Setting
    seed: int
    overrides: tuple[str, ...]
    recipe: Recipe
    """The complete recipe, with the text paths of the sweep file."""

    @property
    def name(self) -> str:
        """The name of the run folder, below the folder of the sweep."""
        return f"{self.setting.name}/seed-{self.seed}"


@dataclass(frozen=True)
class Sweep:
    """A whole sweep, checked."""

    file: Path
    recipe: str
    out: str
    texts: dict[str, tuple[str, ...]]
    data_dir: str
    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    trials: tuple[Trial, ...]
    metric: Metric
    jobs: int
    threads: int
    beam_size: int | None


def read_sweep(path: str | Path, *, out: str = "", jobs: int | None = None) -> Sweep:
    """Reads the file of a sweep and checks each of its runs.

    Args:
        out, jobs: override the values of the file.

    Raises ConfigError, with the line, for an unknown key or setting, an invalid value, and a file that is not TOML or
    plans no runs.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"no file `{format_value(path)}`", "name the TOML file of a sweep")
    try:
        text = path.read_text(encoding="utf-8")
        tables = parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"`{format_value(path)}` is not valid TOML: {format_value(str(error))}") from error
    return _Reader(path, text, tables).read(out, jobs)


class _Reader:
    """Reads the tables of one file, and finds the line of each key."""

    def __init__(self, path: Path, text: str, tables: dict[str, Any]) -> None:
        self.path, self.text, self.tables = path, text, tables

    def read(self, out: str, jobs: int | None) -> Sweep:
        for key in self.tables:
            if key not in KEYS_OF_FILE:
                hint = f"keys: {', '.join(KEYS_OF_FILE)}"
                section = key.partition(".")[0]
                if section in KEYS and section:
                    hint = "settings must be in [set], [grid] or [runs.NAME], as in train.steps = 500"
                if key == "screen":
                    hint = "screenings were removed: write each of their runs as [runs.NAME]"
                raise self.error((key,), f"unknown key `{format_value(key)}`{did_you_mean(key, KEYS_OF_FILE)}", hint)
        recipe = self.value("recipe", str, "default")
        if not (out := out or self.value("out", str, "")):
            raise ConfigError(f"`{format_value(self.path)}` has no `out` for its runs", 'add `out = "FOLDER"` to it')
        texts = {name: self.paths(name) for name in TEXTS}
        texts = {name: paths for name, paths in texts.items() if paths}
        jobs = self.value("jobs", int, 1) if jobs is None else jobs
        if jobs < 1:
            raise ConfigError(f"`jobs={jobs}` must be at least 1", "it is the number of runs that train in parallel")
        threads, beam_size = self.value("threads", int, 1), self.value("beam_size", int, 0)
        for name, number in (("threads", threads), ("beam_size", beam_size)):
            if name in self.tables and not 1 <= number <= MOST_RUNS:
                limit = "at least 1" if number < 1 else f"at most {MOST_RUNS:,}"
                raise self.error((name,), f"`{name}` ({format_value(number)}) must be {limit}")
        seeds = self.seeds()
        always = self.settings("set")
        settings = self.plan_settings(always, len(seeds))
        self.check_alone(recipe, always, settings)
        trials = tuple(
            self.trial(recipe, texts, setting, seed, always | setting.values) for setting in settings for seed in seeds
        )
        metric = self.metric(trials[0].recipe)
        return Sweep(
            self.path, recipe, out, texts, self.value("data_dir", str, ""), settings, seeds, trials, metric, jobs,
            threads, beam_size or None,
        )  # fmt: skip

    def error(self, key: Sequence[str], message: str, hint: str = "") -> ConfigError:
        """Returns the error, prefixed by the line of the key if it is found."""
        line = find_line(self.text, ".".join(key))
        return ConfigError(f"`{format_value(self.path)}`{f', line {line}' if line else ''}: {message}", hint)

    def value(self, key: str, kind: type, default: Any) -> Any:
        value = self.tables.get(key, default)
        if not isinstance(value, kind) or isinstance(value, bool):
            noun = "a whole number" if kind is int else "a string"
            raise self.error((key,), f"`{key}` must be {noun}, not {format_quoted(value)}")
        return value

    def paths(self, key: str) -> tuple[str, ...]:
        value = self.tables.get(key, "")
        if key in ("src", "tgt") and isinstance(value, list) and all(isinstance(path, str) for path in value):
            return tuple(value)
        path = self.value(key, str, "")
        return (path,) if path else ()

    def seeds(self) -> tuple[int, ...]:
        seeds = self.tables.get("seeds", [1])
        if not isinstance(seeds, list) or not seeds or any(type(seed) is not int for seed in seeds):
            raise self.error(
                ("seeds",), f"`seeds` must be a list of whole numbers, not {format_quoted(seeds)}", "as [1, 2]"
            )
        if len({*seeds}) < len(seeds):
            raise self.error(("seeds",), f"`seeds` ({format_value(seeds)}) names a seed twice", "leave one out")
        return tuple(seeds)

    def settings(self, *place: str) -> dict[str, Any]:
        """Returns the settings of a table as `section.key`, whether written that way or as nested tables."""
        table: Any = self.tables
        for part in place:
            table = table.get(part, {}) if isinstance(table, Mapping) else table
        if not isinstance(table, dict):
            raise self.error(place, f"`{'.'.join(place)}` must be a table of settings, not {format_quoted(table)}")
        found = dict[str, Any]()
        for key, value in table.items():
            if isinstance(value, dict):
                found |= {f"{key}.{inner}": inner_value for inner, inner_value in value.items()}
            else:
                found[key] = value
        names = dict[str, str]()
        for key, value in found.items():
            self.check_key(place, key)
            if (first := names.setdefault(rename_setting(key), key)) != key:
                raise self.error((*place, key), f"`{first}` and `{key}` are the same setting", "leave one of them out")
            if not _is_plain(value):
                raise self.error(
                    (*place, key), f"`{key}` ({format_value(value)}) has a date or a time, which no setting can have",
                    "write a number, a string, or a list of them",
                )  # fmt: skip
        return found

    def check_key(self, place: Sequence[str], key: str) -> None:
        section, _, name = rename_setting(key).partition(".")
        at = (*place, key)
        if key == SEED:
            raise self.error(at, f"`{SEED}` is in [{'.'.join(place)}]", "set the seeds with `seeds = [1, 2, 3]`")
        if not name or section not in KEYS:
            sections = [known for known in KEYS if known]
            raise self.error(
                at, f"unknown setting `{format_value(key)}`{did_you_mean(section, sections)}",
                f"write section.key, as in train.steps; the sections are {', '.join(sections)}",
            )  # fmt: skip
        if name not in KEYS[section]:
            known = KEYS[section]
            raise self.error(
                at, f"unknown setting `{format_value(key)}`{suggest_setting(name, known)}",
                f"settings of [{section}]: {', '.join(known)}",
            )  # fmt: skip

    def check_runs(self, settings: int, seeds: int) -> None:
        """Raises ConfigError for more runs than MOST_RUNS, before the runs are listed."""
        if settings * seeds > MOST_RUNS:
            raise ConfigError(
                f"`{format_value(self.path)}` plans {format_value(settings * seeds)} runs, more than {MOST_RUNS:,}",
                "try fewer values at a time",
            )

    def plan_settings(self, always: dict[str, Any], seeds: int) -> tuple[Setting, ...]:
        """Returns the settings of [grid] or [runs]; without either, the recipe alone. Each is run `seeds` times."""
        self.check_runs(1, seeds)
        plans = [plan for plan in PLANS if plan in self.tables]
        if len(plans) > 1:
            raise self.error(
                (plans[1],), f"[{plans[0]}] and [{plans[1]}] are in the same file", "split it into two sweeps"
            )
        if not plans:
            return (Setting("as-it-is", {}),)
        if plans[0] == "runs":
            if not isinstance(named := self.tables["runs"], dict) or not named:
                raise self.error(("runs",), "[runs] names no setting", "write a table [runs.NAME] for each")
            for name in named:
                if not name.strip(".") or _NAME.search(name) or name == "logs":
                    raise self.error(
                        ("runs", name),
                        f"`{format_value(name)}` cannot be its folder",
                        "use letters and digits; `logs` is taken",
                    )
            self.check_runs(len(named), seeds)
            return tuple(Setting(name, self.settings("runs", name)) for name in named)
        choices = self.settings("grid")
        for key, values in choices.items():
            if not isinstance(values, list) or not values:
                raise self.error(("grid", key), f"`{key}` must be a list of values to try, not {format_quoted(values)}")
            self.check_runs(len(values), seeds)  # before values are compared pairwise
            if any(values.count(value) > 1 for value in values):
                raise self.error(
                    ("grid", key), f"`{key}` ({format_value(values)}) names a value twice", "leave one out"
                )
            if rename_setting(key) in map(rename_setting, always):
                raise self.error(("grid", key), f"`{key}` is in both [set] and [grid]", "leave one out")
        if not choices:
            raise self.error(("grid",), "[grid] names no setting", "as in train.steps = [500, 1000]")
        self.check_runs(math.prod(map(len, choices.values())), seeds)
        named_values = (dict(zip(choices, values, strict=True)) for values in product(*choices.values()))
        return self.distinct([Setting(format_point_name(values), values) for values in named_values])

    def distinct(self, settings: Sequence[Setting]) -> tuple[Setting, ...]:
        """Numbers the settings whose names would give the same folder, such as paths that differ only in a slash."""
        names = Counter(setting.name.lower() for setting in settings)
        return tuple(
            setting if names[setting.name.lower()] == 1 else replace(setting, name=f"{setting.name}.{number}")
            for number, setting in enumerate(settings, start=1)
        )

    def check_alone(self, recipe: str, always: dict[str, Any], settings: Sequence[Setting]) -> None:
        """Raises ConfigError, with its line, for the first value that does not have its setting's type."""
        try:
            base = Recipe.load(recipe)
        except ConfigError as error:
            raise self.error(("recipe",), str(error), error.hint) from error
        plan = next((plan for plan in PLANS if plan in self.tables), "")
        for place, values in [(("set",), always), *(((plan, setting.name), setting.values) for setting in settings)]:
            for key, value in values.items():
                section, _, name = rename_setting(key).partition(".")
                if name == "preset":
                    continue
                try:
                    replace_setting(base, section, name, value)
                except ConfigError as error:
                    # Two settings may depend on each other, as d_model and num_heads: the whole is checked later.
                    if f"`{name}`" in str(error) and str(error).count("`") <= 2:
                        at = (*(place if plan == "runs" or place == ("set",) else (plan,)), key)
                        raise self.error(at, str(error), error.hint) from error

    def trial(
        self, recipe: str, texts: dict[str, tuple[str, ...]], setting: Setting, seed: int, values: dict[str, Any]
    ) -> Trial:
        overrides = tuple(f"{key}={_format_toml(value)}" for key, value in [*values.items(), (SEED, seed)])
        try:
            loaded = Recipe.load(recipe, list(overrides))
        except PellucidError as error:
            raise ConfigError(f"`{format_value(self.path)}`, run `{setting.name}`: {error}", error.hint) from error
        given = {name: paths if name in ("src", "tgt") else paths[0] for name, paths in texts.items()}
        return Trial(setting, seed, overrides, replace(loaded, data=override_paths(loaded.data, **given)))

    def metric(self, recipe: Recipe) -> Metric:
        allowed = OF_TASK[recipe.task]
        metric = self.value("metric", str, allowed[0])
        if metric not in get_args(Metric):
            raise self.error(
                ("metric",), f"unknown metric `{format_value(metric)}`{did_you_mean(metric, allowed)}",
                f"choose one of {', '.join(allowed)}",
            )  # fmt: skip
        if metric not in allowed:
            raise self.error(
                ("metric",), f"`{metric}` is not a metric of {TASKS[recipe.task].trained_on}",
                f"choose one of {', '.join(allowed)}",
            )  # fmt: skip
        found: Metric = metric
        return found


def _is_plain(value: Any) -> bool:
    """Returns True if a value of TOML is also valid in JSON: no date and no time."""
    if isinstance(value, list | dict):
        return all(map(_is_plain, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str | bool | int | float)


def replace_setting(base: Recipe, section: str, name: str, value: Any) -> None:
    """Raises ConfigError if the value is invalid for the setting, all other settings being the recipe's."""
    tables = tomllib.loads(base.to_toml())
    tables[section] |= rename_settings(section, {name: value})
    Recipe.from_tables(tables)


def find_line(text: str, key: str) -> int | None:
    """Returns the line of a dotted key or its table, counted from 1; None if it is not found."""
    header: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip().replace('"', "").replace("'", "")
        if bare.startswith("["):
            header = [part.strip() for part in bare.partition("]")[0].strip("[ ").split(".")]
            if f"{'.'.join(header)}.".startswith(f"{key}."):
                return number
        elif "=" in bare:
            parts = [part.strip() for part in bare.partition("=")[0].split(".")]
            if ".".join([*header, *parts]) == key:
                return number
    return None


def format_point_name(values: Mapping[str, Any]) -> str:
    """Returns the folder name of a grid point: `d_model=128,dropout=0.1`."""
    names = [key.partition(".")[2] for key in values]
    said = ",".join(
        f"{name if names.count(name) == 1 else key}={_plain(value)}"
        for (key, value), name in zip(values.items(), names, strict=True)
    )
    return _NAME.sub("_", said)[:120]


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(_plain, value))
    return value if isinstance(value, str) else json.dumps(value)


def _format_toml(value: Any) -> str:
    return toml_line("x", value).partition(" = ")[2]
