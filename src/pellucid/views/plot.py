"""Does the job of `pellucid plot`: draws the pictures of the machinery by their names."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pellucid.errors import ConfigError, argument, did_you_mean
from pellucid.tasks.task import open_model
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
"""The kinds of pictures, each with the options that mean something to it."""
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
    """Draws a picture into a file. Raises ConfigError for an unknown kind, option or ending of the file."""
    if kind not in TAKES:
        raise ConfigError(
            f"there is no picture `{kind}`{did_you_mean(kind, TAKES)}", f"choose one of {', '.join(TAKES)}"
        )
    for name in options:
        if name not in TAKES[kind]:
            owner = next(other for other in TAKES if name in TAKES[other])
            raise ConfigError(f"`{name}=` means nothing to the picture `{kind}`", f"it belongs to `{owner}`")
    suffix = check_suffix(output, SUFFIXES)
    picture = _picture(kind, names, dict(options), {"title": title, "width": width}, device, dtype)
    if suffix == ".svg":
        picture.svg(output)
    else:
        picture.png(output, scale)
    print(f"drew {picture.title} in {output}", file=sys.stderr)


def check_suffix(output: str, suffixes: Sequence[str]) -> str:
    """Returns the ending of a file's name, in small letters. Raises ConfigError for one that says nothing."""
    suffix = Path(output).suffix.lower()
    if suffix not in suffixes:
        raise ConfigError(
            f"{argument('output', output)} ends in none of {', '.join(suffixes)}", "the ending says what is written"
        )
    return suffix


def _picture(
    kind: str, names: Sequence[str], options: dict[str, Any], looks: dict[str, Any], device: str, dtype: str | None
) -> Drawing:
    if kind == "masks":
        if names and "lengths" in options:
            raise ConfigError("the picture `masks` takes texts or `lengths=`, not both", "leave one out")
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
            raise ConfigError("`stack=` is of a model, and none is given", "name a model, or leave it out")
        return plot_positions(**options, **looks)
    if "d_model" in options:
        raise ConfigError("`d_model=` is of sinusoids without a model, and one is given", "leave it out")
    model = open_model(names[0], device, dtype).model
    if "length" not in options:
        options["length"] = min(64, model.config.max_positions)
    return plot_positions(model=model, **options, **looks)


def _refuse(kind: str, names: Sequence[str]) -> None:
    if names:
        raise ConfigError(f"the picture `{kind}` has no use for `{names[0]}`", "leave it out")


def _targets(lengths: Sequence[int], texts: Sequence[str], options: Mapping[str, Any]) -> list[int]:
    """Returns the lengths of the targets whose cross-attention is drawn; none without `cross`."""
    if "targets" in options and "cross" not in options:
        raise ConfigError("`targets=` means nothing without `cross=True`", "add `cross=True`")
    if "targets" in options:
        return _lengths("targets", options["targets"])
    return [length + 1 for length in lengths or (len(text.split()) for text in texts)] if "cross" in options else []


def _lengths(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"`{option}={text}` is not a list of whole numbers", f"write them as in `{option}=5,3`"
        ) from None
