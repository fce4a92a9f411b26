"""Implements `pellucid plot`: draws plots of Transformer components by name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pellucid.errors import ConfigError, did_you_mean, format_argument
from pellucid.tasks.task import open_model
from pellucid.terminal import log_line
from pellucid.views.canvas.drawing import Drawing
from pellucid.views.plots.masks import plot_masks
from pellucid.views.plots.positions import plot_positions
from pellucid.views.plots.run import plot_run
from pellucid.views.plots.schedule import plot_schedule
from pellucid.views.plots.smoothing import plot_smoothing

TAKES: dict[str, tuple[str, ...]] = {
    "masks": ("lengths", "cross", "targets"),
    "positions": ("length", "d_model", "stack"),
    "schedule": ("settings",),
    "smoothing": ("label_smoothing", "vocab_size"),
    "run": (),
}
"""The kinds of plots, each with the options that apply to it."""
SUFFIXES = (".svg", ".png")


def plot_kind(
    kind: str,
    names: Sequence[str],
    output: str,
    options: Mapping[str, Any],
    *,
    title: str,
    width: str | None,
    scale: float,
    device: str,
    dtype: str | None,
) -> None:
    """Draws a plot into a file. Raises ConfigError for an unknown kind, option or file extension."""
    if kind not in TAKES:
        raise ConfigError(f"unknown picture `{kind}`{did_you_mean(kind, TAKES)}", f"choose one of {', '.join(TAKES)}")
    for name in options:
        if name not in TAKES[kind]:
            owner = next(other for other in TAKES if name in TAKES[other])
            raise ConfigError(f"`{name}=` has no effect with the picture `{kind}`", f"it belongs to `{owner}`")
    suffix = check_suffix(output, SUFFIXES)
    picture = _picture(kind, names, dict(options), {"title": title, "width": width}, device, dtype)
    if suffix == ".svg":
        picture.svg(output)
    else:
        picture.png(output, scale)
    log_line(f"drew {picture.title} in {output}")


def check_suffix(output: str, suffixes: Sequence[str]) -> str:
    """Returns the file extension in lower case. Raises ConfigError for an unknown one."""
    suffix = Path(output).suffix.lower()
    if suffix not in suffixes:
        raise ConfigError(
            f"{format_argument('output', output)} must end in one of {', '.join(suffixes)}",
            "the ending selects the format",
        )
    return suffix


def _picture(
    kind: str, names: Sequence[str], options: dict[str, Any], looks: dict[str, Any], device: str, dtype: str | None
) -> Drawing:
    if kind == "masks":
        if names and "lengths" in options:
            raise ConfigError("the picture `masks` takes texts or `lengths=`, not both", "leave one of them out")
        lengths = () if names else _lengths("lengths", options.get("lengths", "5,3"))
        return plot_masks(lengths, names, targets=_targets(lengths, names, options), **looks)
    if kind == "positions":
        return _positions(names, options, looks, device, dtype)
    if kind == "schedule":
        return plot_schedule(*names, **options, **looks)
    if kind == "smoothing":
        _refuse(kind, names)
        return plot_smoothing(**options, **looks)
    return plot_run(*names, **looks)


def _positions(
    names: Sequence[str], options: dict[str, Any], looks: dict[str, Any], device: str, dtype: str | None
) -> Drawing:
    _refuse("positions", names[1:])
    if not names:
        if "stack" in options:
            raise ConfigError("`stack=` requires a model, and none is given", "name a model, or leave it out")
        return plot_positions(**options, **looks)
    if "d_model" in options:
        raise ConfigError("`d_model=` is for sinusoids without a model, and a model is given", "leave it out")
    model = open_model(names[0], device, dtype).model
    if "length" not in options:
        options["length"] = min(64, model.config.max_positions)
    return plot_positions(model=model, **options, **looks)


def _refuse(kind: str, names: Sequence[str]) -> None:
    if names:
        raise ConfigError(f"`{names[0]}` has no effect with the picture `{kind}`", "leave it out")


def _targets(lengths: Sequence[int], texts: Sequence[str], options: Mapping[str, Any]) -> list[int]:
    """Returns the lengths of the targets for cross-attention masks; empty without `cross`."""
    if "targets" in options and "cross" not in options:
        raise ConfigError("`targets=` requires `cross=True`", "add `cross=True`")
    if "targets" in options:
        return _lengths("targets", options["targets"])
    return [length + 1 for length in lengths or (len(text.split()) for text in texts)] if "cross" in options else []


def _lengths(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"`{option}={text}` is not a list of whole numbers", f"write them like `{option}=5,3`"
        ) from None
