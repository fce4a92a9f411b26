"""Formats the results of a sweep as tables: settings with mean and interval over seeds."""

import math
from collections.abc import Mapping
from typing import Any

from pellucid.sweep.file import Sweep, Trial
from pellucid.sweep.interval import Mean
from pellucid.sweep.run_summaries import RunSummary
from pellucid.sweep.table import Column, ReportTable

TITLES = {
    "bleu": "beam BLEU",
    "chrf": "beam chrF",
    "loss": "loss",
    "bits_per_byte": "bits/byte",
    "accuracy": "accuracy",
}
DECIMALS = {"bleu": 2, "chrf": 2, "loss": 4, "bits_per_byte": 4, "accuracy": 4}
LOW_IS_GOOD = ("loss", "bits_per_byte")

Surveyed = Mapping[str, RunSummary]
"""The finished runs by the names of their trials."""


def means(sweep: Sweep, runs: Surveyed, metric: str = "") -> dict[str, Mean]:
    """Returns the mean score of each setting with finished runs, by the setting's name."""
    found = {}
    for setting in sweep.settings:
        trials = [trial for trial in sweep.trials if trial.setting is setting]
        values = [value for trial in trials if (value := _response(runs, trial, metric or sweep.metric)) is not None]
        if values:
            found[setting.name] = Mean.from_values(values)
    return found


def _response(runs: Surveyed, trial: Trial, metric: str) -> float | None:
    value = runs[trial.name].scores.get(metric) if trial.name in runs else None
    return value if value is not None and math.isfinite(value) else None


def best_setting(sweep: Sweep, runs: Surveyed) -> str:
    """Returns the name of the setting with the best mean; "" if no run has finished."""
    found = means(sweep, runs)
    sign = 1 if sweep.metric in LOW_IS_GOOD else -1
    return min(found, key=lambda name: sign * found[name].value, default="")


def settings_table(sweep: Sweep, runs: Surveyed) -> ReportTable:
    """Returns a table with a row for each setting: values, number of finished seeds, mean score and interval."""
    keys = list(dict.fromkeys(key for setting in sweep.settings for key in setting.values))
    short = [key.partition(".")[2] for key in keys]
    titles = [name if short.count(name) == 1 else key for key, name in zip(keys, short, strict=True)]
    responses, tests = means(sweep, runs), means(sweep, runs, "test_bleu")
    rows = []
    for setting in sweep.settings:
        done = [runs[t.name] for t in sweep.trials if t.setting is setting and t.name in runs]
        found, test = responses.get(setting.name), tests.get(setting.name)
        values = {key: _cell(value) for key, value in setting.values.items()}
        row: dict[str, Any] = {"setting": setting.name} | {key: values.get(key) for key in keys}
        row |= {"seeds": len(done), sweep.metric: found and found.value, "half_width": found and found.half_width}
        row |= {"seconds": sum(run.seconds or 0.0 for run in done) / len(done) if done else None}
        row |= {"test_bleu": test and test.value, "test_half_width": test and test.half_width}
        rows.append(row)
    decimals = DECIMALS[sweep.metric]
    columns = [
        Column("setting", "setting"),
        *(Column(key, title) for key, title in zip(keys, titles, strict=True)),
        Column("seeds", "seeds"),
        Column(sweep.metric, TITLES[sweep.metric], decimals),
        Column("half_width", "±", decimals),
        Column("test_bleu", "test BLEU", 2),
        Column("test_half_width", "± (test)", 2),
        Column("seconds", "seconds per run", 0),
    ]
    return ReportTable(columns, rows)


def _cell(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def say_interval(sweep: Sweep, runs: Surveyed) -> str:
    """Returns the sentence that explains the interval after ±."""
    counts = {mean.count for mean in means(sweep, runs).values()}
    if not counts:
        return "no run has finished"
    what = f"{TITLES[sweep.metric]} on the validation set"
    if sweep.metric in ("bleu", "chrf"):
        what = f"{TITLES[sweep.metric]} of the whole validation set"
    if counts == {1}:
        return f"{what}; one seed per setting: no interval, and differences may be chance"
    said = f"{what}; ±: half of the 95 % t interval of the mean over seeds"
    return said + ("; none if only one seed has finished" if 1 in counts else "")
