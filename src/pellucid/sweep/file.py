"""The file of a sweep, its settings and seeds, read and checked before anything runs."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

from pellucid.config import KEYS, TASKS, Recipe
from pellucid.config.tables import meant_setting, toml_line
from pellucid.data.locate import with_texts
from pellucid.errors import ConfigError, PellucidError, did_you_mean, quoted, shown
from pellucid.sweep.design import MOST_FACTORS, fractional_factorial

Metric = Literal["bleu", "chrf", "loss", "bits_per_byte", "accuracy"]
OF_TASK: dict[str, tuple[Metric, ...]] = {
    "translate": ("bleu", "chrf", "loss", "bits_per_byte"),
    "classify": ("accuracy", "loss"),
    "generate": ("bits_per_byte", "loss"),
}
"""The metrics of each task, first the one that a file without `metric` means."""
KEYS_OF_FILE = (
    "recipe", "out", "src", "tgt", "valid_src", "valid_tgt", "data_dir", "seeds", "jobs", "threads", "metric",
    "beam_size", "set", "grid", "runs", "screen",
)  # fmt: skip
TEXTS = KEYS_OF_FILE[2:6]
PLANS = ("grid", "runs", "screen")
SEED = "train.seed"
_NAME = re.compile(r"[^\w.=,+-]+")
MOST_RUNS = 10_000


@dataclass(frozen=True)
class Setting:
    """One thing that is tried: what differs from the recipe, and what it is called."""

    name: str
    values: dict[str, Any]
    levels: tuple[int, ...] = ()
    """The level that each factor of a screening stands at."""


@dataclass(frozen=True)
class Trial:
    """One training: a setting with a seed."""

    setting: Setting
    seed: int
    overrides: tuple[str, ...]
    recipe: Recipe
    """All of its settings, with the paths of the texts as the file has them."""

    @property
    def name(self) -> str:
        """The run's folder, below that of the sweep."""
        return f"{self.setting.name}/seed-{self.seed}"


@dataclass(frozen=True)
class Sweep:
    """A whole experiment, checked."""

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
    factors: dict[str, tuple[Any, Any]]
    """The two levels of each factor of a screening."""


def read_sweep(path: str | Path, *, out: str = "", jobs: int | None = None) -> Sweep:
    """Reads the file of a sweep, and checks every run of it.

    Args:
        out, jobs: win over the file's.

    Raises ConfigError, with the line, for a key or setting that is unknown, a value that cannot be, and for a file
    that is no TOML or plans nothing.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"there is no file `{shown(path)}`", "name the TOML file of a sweep")
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"`{shown(path)}` is not valid TOML: {shown(str(error))}") from error
    return _Reader(path, text, tables).read(out, jobs)


class _Reader:
    """Reads the tables of one file; knows on which line a key stands."""

    def __init__(self, path: Path, text: str, tables: dict[str, Any]) -> None:
        self.path, self.text, self.tables = path, text, tables

    def read(self, out: str, jobs: int | None) -> Sweep:
        for key in self.tables:
            if key not in KEYS_OF_FILE:
                hint = f"keys: {', '.join(KEYS_OF_FILE)}"
                section = key.partition(".")[0]
                if section in KEYS and section:
                    hint = "settings stand in [set], [grid], [runs.NAME] or [screen], as in train.steps = 500"
                raise self.error((key,), f"unknown key `{shown(key)}`{did_you_mean(key, KEYS_OF_FILE)}", hint)
        recipe = self.value("recipe", str, "default")
        if not (out := out or self.value("out", str, "")):
            raise ConfigError(f"`{shown(self.path)}` does not say where its runs go", 'add `out = "FOLDER"` to it')
        texts = {name: self.paths(name) for name in TEXTS}
        texts = {name: paths for name, paths in texts.items() if paths}
        jobs = self.value("jobs", int, 1) if jobs is None else jobs
        if jobs < 1:
            raise ConfigError(f"`jobs={jobs}` must be at least 1", "so many runs train side by side")
        threads, beam_size = self.value("threads", int, 1), self.value("beam_size", int, 0)
        for name, number in (("threads", threads), ("beam_size", beam_size)):
            if name in self.tables and number < 1:
                raise self.error((name,), f"`{name}` ({number}) must be at least 1")
        seeds = self.seeds()
        always = self.settings("set")
        settings, factors = self.planned(always)
        if len(settings) * len(seeds) > MOST_RUNS:
            raise ConfigError(
                f"`{shown(self.path)}` plans {len(settings) * len(seeds):,} runs, more than {MOST_RUNS:,}",
                "try fewer values at a time, or a screening",
            )
        self.check_alone(recipe, always, settings)
        trials = tuple(
            self.trial(recipe, texts, setting, seed, always | setting.values) for setting in settings for seed in seeds
        )
        metric = self.metric(trials[0].recipe)
        return Sweep(
            self.path, recipe, out, texts, self.value("data_dir", str, ""), settings, seeds, trials, metric, jobs,
            threads, beam_size or None, factors,
        )  # fmt: skip

    def error(self, key: Sequence[str], message: str, hint: str = "") -> ConfigError:
        """Returns the error with the line of a key in front, where it is found."""
        line = find_line(self.text, ".".join(key))
        return ConfigError(f"`{shown(self.path)}`{f', line {line}' if line else ''}: {message}", hint)

    def value(self, key: str, kind: type, default: Any) -> Any:
        value = self.tables.get(key, default)
        if not isinstance(value, kind) or isinstance(value, bool):
            noun = "a whole number" if kind is int else "a string"
            raise self.error((key,), f"`{key}` must be {noun}, not {quoted(value)}")
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
            raise self.error(("seeds",), f"`seeds` must be a list of whole numbers, not {quoted(seeds)}", "as [1, 2]")
        if len({*seeds}) < len(seeds):
            raise self.error(("seeds",), f"`seeds` ({shown(seeds)}) names a seed twice", "leave one out")
        return tuple(seeds)

    def settings(self, *place: str) -> dict[str, Any]:
        """Returns the settings of a table as `section.key`, written so or as nested tables."""
        table: Any = self.tables
        for part in place:
            table = table.get(part, {}) if isinstance(table, Mapping) else table
        if not isinstance(table, dict):
            raise self.error(place, f"`{'.'.join(place)}` must be a table of settings, not {quoted(table)}")
        found = dict[str, Any]()
        for key, value in table.items():
            if isinstance(value, dict):
                found |= {f"{key}.{inner}": inner_value for inner, inner_value in value.items()}
            else:
                found[key] = value
        for key in found:
            self.check_key(place, key)
        return found

    def check_key(self, place: Sequence[str], key: str) -> None:
        section, _, name = key.partition(".")
        at = (*place, key)
        if key == SEED:
            raise self.error(at, f"`{SEED}` stands in [{'.'.join(place)}]", "the seeds are `seeds = [1, 2, 3]`")
        if not name or section not in KEYS:
            sections = [known for known in KEYS if known]
            raise self.error(
                at, f"unknown setting `{shown(key)}`{did_you_mean(section, sections)}",
                f"write section.key, as in train.steps; the sections are {', '.join(sections)}",
            )  # fmt: skip
        if name not in KEYS[section]:
            known = KEYS[section]
            raise self.error(
                at, f"unknown setting `{shown(key)}`{meant_setting(name, known)}",
                f"settings of [{section}]: {', '.join(known)}",
            )  # fmt: skip

    def planned(self, always: dict[str, Any]) -> tuple[tuple[Setting, ...], dict[str, tuple[Any, Any]]]:
        """Returns what is tried, and the factors where it is a screening."""
        plans = [plan for plan in PLANS if plan in self.tables]
        if len(plans) > 1:
            raise self.error((plans[1],), f"[{plans[0]}] and [{plans[1]}] stand in one file", "make it two sweeps")
        if not plans:
            return (Setting("as-it-is", {}),), {}
        if plans[0] == "runs":
            if not isinstance(named := self.tables["runs"], dict) or not named:
                raise self.error(("runs",), "[runs] names no setting", "write a table [runs.NAME] for each")
            for name in named:
                if not name.strip(".") or _NAME.search(name) or name == "logs":
                    raise self.error(
                        ("runs", name),
                        f"`{shown(name)}` cannot be its folder",
                        "use letters and digits; `logs` is taken",
                    )
            return tuple(Setting(name, self.settings("runs", name)) for name in named), {}
        choices = self.settings(plans[0])
        for key, values in choices.items():
            if not isinstance(values, list) or not values:
                raise self.error((plans[0], key), f"`{key}` must be a list of values to try, not {quoted(values)}")
            if any(values.count(value) > 1 for value in values):
                raise self.error((plans[0], key), f"`{key}` ({shown(values)}) names a value twice", "leave one out")
            if key in always:
                raise self.error((plans[0], key), f"`{key}` stands in [set] and in [{plans[0]}]", "leave one out")
        if not choices:
            raise self.error((plans[0],), f"[{plans[0]}] names no setting", "as in train.steps = [500, 1000]")
        if plans[0] == "grid":
            named_values = (dict(zip(choices, values, strict=True)) for values in product(*choices.values()))
            return self.distinct([Setting(name_of(values), values) for values in named_values]), {}
        if len(choices) > MOST_FACTORS:
            raise self.error(
                ("screen",), f"[screen] has {len(choices)} factors, and eight runs can tell at most {MOST_FACTORS}"
            )
        for key, values in choices.items():
            if len(values) != 2:
                raise self.error(("screen", key), f"`{key}` ({shown(values)}) needs two levels, not {len(values)}")
        factors = {key: (values[0], values[1]) for key, values in choices.items()}
        settings = [
            Setting(
                f"screen-{number}",
                {key: factors[key][level] for key, level in zip(factors, levels, strict=True)},
                levels,
            )
            for number, levels in enumerate(fractional_factorial(len(factors)), start=1)
        ]
        return tuple(settings), factors

    def distinct(self, settings: Sequence[Setting]) -> tuple[Setting, ...]:
        """Numbers the settings whose names would be one folder, as paths that differ in a slash alone."""
        names = [setting.name.lower() for setting in settings]
        return tuple(
            setting if names.count(setting.name.lower()) == 1 else replace(setting, name=f"{setting.name}.{number}")
            for number, setting in enumerate(settings, start=1)
        )

    def check_alone(self, recipe: str, always: dict[str, Any], settings: Sequence[Setting]) -> None:
        """Raises ConfigError for the first value that is not of its setting's type, with its line."""
        try:
            base = Recipe.load(recipe)
        except ConfigError as error:
            raise self.error(("recipe",), str(error), error.hint) from error
        plan = next((plan for plan in PLANS if plan in self.tables), "")
        for place, values in [(("set",), always), *(((plan, setting.name), setting.values) for setting in settings)]:
            for key, value in values.items():
                section, _, name = key.partition(".")
                if name == "preset":
                    continue
                try:
                    replace_setting(base, section, name, value)
                except ConfigError as error:
                    # Two settings may need each other, as d_model and num_heads do: that is for the whole to say.
                    if f"`{name}`" in str(error) and str(error).count("`") <= 2:
                        at = (*(place if plan == "runs" or place == ("set",) else (plan,)), key)
                        raise self.error(at, str(error), error.hint) from error

    def trial(
        self, recipe: str, texts: dict[str, tuple[str, ...]], setting: Setting, seed: int, values: dict[str, Any]
    ) -> Trial:
        overrides = tuple(f"{key}={_as_toml(value)}" for key, value in [*values.items(), (SEED, seed)])
        try:
            loaded = Recipe.load(recipe, list(overrides))
        except PellucidError as error:
            raise ConfigError(f"`{shown(self.path)}`, run `{setting.name}`: {error}", error.hint) from error
        given = {name: paths if name in ("src", "tgt") else paths[0] for name, paths in texts.items()}
        return Trial(setting, seed, overrides, replace(loaded, data=with_texts(loaded.data, **given)))

    def metric(self, recipe: Recipe) -> Metric:
        allowed = OF_TASK[recipe.task]
        metric = self.value("metric", str, allowed[0])
        if metric not in get_args(Metric):
            raise self.error(
                ("metric",), f"unknown metric `{shown(metric)}`{did_you_mean(metric, allowed)}",
                f"choose one of {', '.join(allowed)}",
            )  # fmt: skip
        if metric not in allowed:
            raise self.error(
                ("metric",), f"`{metric}` is not a metric of {TASKS[recipe.task].trained_on}",
                f"choose one of {', '.join(allowed)}",
            )  # fmt: skip
        found: Metric = metric
        return found


def replace_setting(base: Recipe, section: str, name: str, value: Any) -> None:
    """Raises ConfigError where the value alone cannot be the setting's, all others being the recipe's."""
    tables = tomllib.loads(base.to_toml())
    tables[section][name] = value
    Recipe.from_tables(tables)


def find_line(text: str, key: str) -> int | None:
    """Returns the line on which a dotted key or its table stands, counted from 1; None where it is not found."""
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


def name_of(values: Mapping[str, Any]) -> str:
    """Returns the folder of a point of a grid: `d_model=128,dropout=0.1`."""
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


def _as_toml(value: Any) -> str:
    return toml_line("x", value).partition(" = ")[2]
