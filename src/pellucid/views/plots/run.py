"""Plots a run's log: losses, scores, learning rate, gradients and speed over its steps."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.errors import DataError, PellucidError
from pellucid.files.budget import MOST_LOG_BYTES, MOST_SETTINGS_BYTES, read_bytes
from pellucid.files.reading import parse_json, parse_toml, read_text
from pellucid.training.log import METRICS
from pellucid.views.canvas.chart import Panel, Series, draw_panel
from pellucid.views.canvas.drawing import MARGIN, PAGE, Drawing, picture_width

CHARTS: tuple[tuple[str, tuple[tuple[str, str, str], ...], bool], ...] = (
    ("Loss", (("train", "loss", "training"), ("validation", "loss", "validation")), True),
    ("BLEU", (("validation", "bleu", ""),), False),
    ("Accuracy", (("validation", "accuracy", ""),), False),
    ("Learning rate", (("train", "learning_rate", ""),), False),
    ("Gradient norm", (("train", "gradient_norm", ""),), True),
    ("Tokens per second", (("train", "tokens_per_second", ""),), False),
)
"""The title, the (event, key, name) of each line, and True for a logarithmic axis."""
FROM_ZERO = {"Learning rate", "Tokens per second"}
GAP = 18.0
FEW = 3
"""The largest number of settings per run in a legend."""


def plot_run(
    *runs: str | Path, names: Sequence[str] = (), title: str = "", width: str | float | None = None
) -> Drawing:
    """Plots the metrics of a run, or of several runs: one chart for each metric in their logs.

    Args:
        runs: run folders, or metrics.jsonl files.
        names: the names of the runs; by default their folders, each with the settings that differ from the other runs.

    Raises DataError for a run without a log, or without a step in its log.
    """
    shown = picture_width(width)
    page = shown or PAGE
    if not runs:
        raise DataError("no run is given", "name a run folder")
    logs = dict(zip(_names(runs, names), map(read_metrics, runs), strict=True))
    panels = [panel for chart in CHARTS if (panel := _panel(chart, logs)) is not None]
    if not panels:
        raise DataError(f"the log of `{runs[0]}` holds no step yet", "wait until `train.log_every` steps are done")
    drawing = Drawing(title or f"Training of {', '.join(logs)}", _description(panels))
    room = page - 2 * MARGIN
    across = 2 if room > 420 else 1
    share, y = (room - (across - 1) * GAP) / across, drawing.add_heading(drawing.title, "", page) + 4
    for first in range(0, len(panels), across):
        line = panels[first : first + across]
        y = 8 + max(draw_panel(drawing, panel, MARGIN + n * (share + GAP), y, share) for n, panel in enumerate(line))
    return drawing.finish(shown)


def _names(runs: Sequence[str | Path], given: Sequence[str]) -> list[str]:
    """Returns the names of the runs: given ones, else folder (with its parent if ambiguous) and differing settings."""
    paths = [Path(run).resolve() for run in runs]
    own = [path.name for path in paths]
    longer = [
        name if own.count(name) == 1 else f"{path.parent.name}/{name}" for name, path in zip(own, paths, strict=True)
    ]
    told = [f"{name} ({by})" if by else name for name, by in zip(longer, _differences(paths), strict=True)]
    found = [given[number] if number < len(given) else name for number, name in enumerate(told)]
    return [name if found.count(name) == 1 else f"{name} ({number + 1})" for number, name in enumerate(found)]


def _differences(runs: Sequence[Path]) -> list[str]:
    """Returns for each run a few of the settings that differ between the runs; empty if they are unknown."""
    recipes = [_settings(run) for run in runs]
    if not all(recipes):
        return [""] * len(runs)
    keys = dict.fromkeys(key for recipe in recipes for key in recipe)
    differing = [key for key in keys if any(recipe.get(key) != recipes[0].get(key) for recipe in recipes)]
    more = [f"{len(differing) - FEW} more"] if len(differing) > FEW else []
    return [
        ", ".join([*(f"{key.partition('.')[2]} {recipe.get(key, 'unset')}" for key in differing[:FEW]), *more])
        for recipe in recipes
    ]


def _settings(run: Path) -> dict[str, Any]:
    """Returns the settings of a run's recipe as {"train.steps": 100}; empty if it has no readable recipe."""
    try:
        tables = parse_toml(read_text(run / "recipe.toml", MOST_SETTINGS_BYTES))
    except (PellucidError, OSError, ValueError):
        return {}
    return {
        f"{section}.{key}": value
        for section, table in tables.items()
        if isinstance(table, dict)
        for key, value in table.items()
    }


def _panel(
    chart: tuple[str, tuple[tuple[str, str, str], ...], bool], logs: dict[str, list[dict[str, Any]]]
) -> Panel | None:
    """Returns the chart, or None if no log has data for it."""
    title, keys, logarithmic = chart
    lines = []
    for run, log in logs.items():
        for event, key, kind in keys:
            steps, values = column(log, event, key)
            name = ", ".join(filter(None, (run if len(logs) > 1 else "", kind)))
            if len(steps):
                lines.append(Series(name, steps, values, dots=event == "validation" and len(steps) <= 40))
    if not lines:
        return None
    logarithmic = logarithmic and all((line.y > 0).all() for line in lines)
    return Panel(title, "step", tuple(lines), logarithmic, title in FROM_ZERO)


def _description(panels: Sequence[Panel]) -> str:
    lines = (
        f"{panel.title}{f' ({line.name})' if line.name else ''} {line.y[0]:.4g} at step {line.x[0]:,.0f}, "
        f"{line.y[-1]:.4g} at step {line.x[-1]:,.0f}"
        for panel in panels
        for line in panel.lines
    )
    return f"Charts over the steps of training. {'; '.join(lines)}."


def read_metrics(run: str | Path) -> list[dict[str, Any]]:
    """Reads the lines of a run's metrics.jsonl, or of the file itself; an incomplete last line is skipped.

    Raises DataError if the file does not exist, or a line was not written by a run.
    """
    path = Path(run) / METRICS if Path(run).is_dir() else Path(run)
    if not path.is_file():
        raise DataError(f"no file `{path}`", "name a run folder in which training has begun")
    found = []
    for number, line in enumerate(read_bytes(path, MOST_LOG_BYTES).splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            break
        try:
            table = parse_json(line)
            found.append(table | {"event": str(table["event"]), "step": int(table["step"])})
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise DataError(f"line {number} of `{path}` is not a line of a run's log", "name a run folder") from error
    return found


def column(lines: list[dict[str, Any]], event: str, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the steps and values of a key from the lines of an event that contain it."""
    rows = [(line["step"], line[key]) for line in lines if line["event"] == event and _is_number(line.get(key))]
    table = np.array(rows, np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
