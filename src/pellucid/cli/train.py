"""`pellucid train`."""

from typing import Annotated

import tyro

from pellucid.cli.options import Device, Settings


def train(
    recipe: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE", help="a shipped recipe's name or a TOML file")
    ] = "default",
    /,
    *,
    out: Annotated[str, tyro.conf.arg(metavar="FOLDER", help="the run folder; the same command resumes there")],
    src: Annotated[str, tyro.conf.arg(metavar="FILE", help="source sentences, one a line, plain or gzip")] = "",
    tgt: Annotated[str, tyro.conf.arg(metavar="FILE", help="their translations, line by line")] = "",
    valid_src: Annotated[str, tyro.conf.arg(metavar="FILE", help="source sentences to validate on")] = "",
    valid_tgt: Annotated[str, tyro.conf.arg(metavar="FILE", help="their translations")] = "",
    data_dir: Annotated[
        str, tyro.conf.arg(metavar="FOLDER", help="where the recipe's texts lie; else PELLUCID_DATA")
    ] = "",
    settings: Settings = (),
    fresh: Annotated[bool, tyro.conf.arg(help="start over: remove an earlier run from the folder")] = False,
    device: Device = "auto",
) -> int:
    """Train a translator into a run folder. The same command resumes; on a finished run it says so.

    example: pellucid train --src train.de --tgt train.en --out run
    example: pellucid train multi30k-de-en --data-dir data --out run --set train.steps=500
    """
    import sys

    from pellucid.config import Recipe
    from pellucid.training.interrupts import Interrupted
    from pellucid.workflow.train import train as run_training

    texts = {"src": src, "tgt": tgt, "valid_src": valid_src, "valid_tgt": valid_tgt}
    overrides = [*(f"data.{name}={path}" for name, path in texts.items() if path), *settings]
    try:
        result = run_training(Recipe.load(recipe, overrides), out, data_dir=data_dir, device=device, fresh=fresh)
    except Interrupted as stop:
        print(f"{stop}; the state is saved, the same command goes on from there", file=sys.stderr)
        return 128 + stop.signal
    bleu = "" if result.valid_bleu is None else f", validation BLEU {result.valid_bleu:.2f}"
    print(f"{out}: finished after {result.steps:,} steps, validation loss {result.valid_loss:.3f}{bleu}", file=sys.stderr)
    return 0
