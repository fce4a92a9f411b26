"""`pellucid plot`."""

from typing import Annotated

import tyro

from pellucid.cli.options import (
    Choices,
    Device,
    Dtype,
    PictureOutput,
    PictureWidth,
    Revision,
    Settings,
    add_revision,
    flag,
    optional,
)


def plot(
    kind: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="KIND", help="what to plot: masks, positions, schedule, smoothing or run"),
        Choices.from_words("masks", "positions", "schedule", "smoothing", "run"),
    ],
    names: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        optional(
            "[NAME ...]",
            "masks: texts; positions: a model; schedule: recipes, runs, or settings as KEY=VALUE,KEY=VALUE; run: run "
            "folders",
            "none",
        ),
    ] = (),
    /,
    *,
    output: PictureOutput,
    lengths: Annotated[str | None, optional("N,N,...", "masks: number of tokens of each sentence", "5,3")] = None,
    cross: Annotated[bool, flag("masks: plot the mask of cross-attention: target rows, source columns")] = False,
    targets: Annotated[
        str | None, optional("N,N,...", "with --cross: number of tokens of each target", "one more than its source")
    ] = None,
    length: Annotated[int | None, optional("N", "positions: number of positions", "64")] = None,
    d_model: Annotated[int | None, optional("N", "positions: width of the sinusoids", "128")] = None,
    stack: Annotated[
        str | None,
        optional("NAME", "positions: encoder or decoder of the model", "the first"),
        Choices.from_words("encoder", "decoder"),
    ] = None,
    label_smoothing: Annotated[
        float | None, optional("X", "smoothing: probability spread over the vocabulary", "0.1")
    ] = None,
    vocab_size: Annotated[int | None, optional("N", "smoothing: size of the vocabulary", "12")] = None,
    set: Settings = (),
    title: Annotated[str | None, optional("TEXT", "title above the plot", "by content")] = None,
    width: PictureWidth = None,
    scale: Annotated[float, tyro.conf.arg(metavar="X", help="PNG: dots per pixel of 1/96 inch")] = 2.0,
    revision: Revision = None,
    device: Device = "cpu",
    dtype: Dtype = None,
) -> int:
    """Plot a part of the Transformer, computed by the code of the model itself: the masks of a batch, positional
    encodings and the similarity of positions, the learning rate of each step, the smoothed target distribution of the
    loss, or the metrics of a run.

    example: pellucid plot masks --lengths 5,3 -o masks.svg
    example: pellucid plot masks --lengths 5,3 --cross --targets 4,6 -o cross.svg
    example: pellucid plot schedule multi30k-de-en dates -o schedule.png
    example: pellucid plot run run -o run.svg
    """
    from pellucid.errors import ConfigError
    from pellucid.views.plot import plot_kind

    if revision is not None and (kind != "positions" or not names):
        raise ConfigError(
            f"`--revision {revision}` requires `plot positions` with a model", "leave --revision out, or name a model"
        )
    names = (add_revision(names[0], revision), *names[1:]) if names else ()

    given = {
        "lengths": lengths, "cross": cross or None, "targets": targets,
        "length": length, "d_model": d_model, "stack": stack, "label_smoothing": label_smoothing,
        "vocab_size": vocab_size, "settings": set or None,
    }  # fmt: skip
    options = {name: value for name, value in given.items() if value is not None}
    plot_kind(kind, names, output, options, title=title or "", width=width, scale=scale, device=device, dtype=dtype)
    return 0
