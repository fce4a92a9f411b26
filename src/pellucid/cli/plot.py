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
    at_revision,
    flag,
    optional,
)


def plot(
    kind: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="KIND", help="masks, positions, schedule, smoothing or run"),
        Choices.of("masks", "positions", "schedule", "smoothing", "run"),
    ],
    names: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        optional(
            "[NAME ...]",
            "of masks texts; of positions a model; of schedule recipes, runs, or settings as KEY=VALUE,KEY=VALUE; of "
            "run runs",
            "none",
        ),
    ] = (),
    /,
    *,
    output: PictureOutput,
    lengths: Annotated[str | None, optional("N,N,...", "masks: how many tokens each sentence has", "5,3")] = None,
    cross: Annotated[bool, flag("masks: that of cross-attention, target rows over source columns")] = False,
    targets: Annotated[
        str | None, optional("N,N,...", "with --cross: how many tokens each target has", "one more than its source")
    ] = None,
    length: Annotated[int | None, optional("N", "positions: how many", "64")] = None,
    d_model: Annotated[int | None, optional("N", "positions: the width of sinusoids", "128")] = None,
    stack: Annotated[
        str | None,
        optional("NAME", "positions: encoder or decoder, of a model", "the first"),
        Choices.of("encoder", "decoder"),
    ] = None,
    label_smoothing: Annotated[float | None, optional("X", "smoothing: how much is spread", "0.1")] = None,
    vocab_size: Annotated[int | None, optional("N", "smoothing: how many words there are", "12")] = None,
    set: Settings = (),
    title: Annotated[str | None, optional("TEXT", "what stands above the picture", "what it shows")] = None,
    width: PictureWidth = None,
    scale: Annotated[float, tyro.conf.arg(metavar="X", help="dots of a PNG for each pixel of 1/96 inch")] = 2.0,
    revision: Revision = None,
    device: Device = "cpu",
    dtype: Dtype = None,
) -> int:
    """Draw a part of the Transformer, from the code that runs: the masks of a batch, positional encodings and how alike
    two positions are, the learning rate of each step, the smoothed target of the loss, or the metrics of a run.

    example: pellucid plot masks --lengths 5,3 -o masks.svg
    example: pellucid plot masks --lengths 5,3 --cross --targets 4,6 -o cross.svg
    example: pellucid plot schedule multi30k-de-en dates -o schedule.png
    example: pellucid plot run run -o run.svg
    """
    from pellucid.errors import ConfigError
    from pellucid.views.plot import plot_kind

    if revision is not None and (kind != "positions" or not names):
        raise ConfigError(
            f"`--revision {revision}` is of the model of `plot positions`", "leave it out, or name a model"
        )
    names = (at_revision(names[0], revision), *names[1:]) if names else ()

    given = {
        "lengths": lengths, "cross": cross or None, "targets": targets,
        "length": length, "d_model": d_model, "stack": stack, "label_smoothing": label_smoothing,
        "vocab_size": vocab_size, "settings": set or None,
    }  # fmt: skip
    options = {name: value for name, value in given.items() if value is not None}
    plot_kind(kind, names, output, options, title=title or "", width=width, scale=scale, device=device, dtype=dtype)
    return 0
