"""`pellucid train`."""

from typing import Annotated, Any

import tyro

from pellucid.cli.options import Device, Settings, optional


def _text(help: str) -> Any:
    return optional("FILE", help, "as the recipe says")


def train(
    recipe: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE", help="a shipped recipe's name or a TOML file")
    ] = "default",
    /,
    *,
    out: Annotated[str, tyro.conf.arg(metavar="FOLDER", help="the run folder; the same command resumes there")],
    src: Annotated[str, _text("source sentences, one a line, plain or gzip")] = "",
    tgt: Annotated[str, _text("their translations, line by line")] = "",
    valid_src: Annotated[str, _text("source sentences to validate on")] = "",
    valid_tgt: Annotated[str, _text("their translations")] = "",
    data_dir: Annotated[str, optional("FOLDER", "where the recipe's texts lie", "PELLUCID_DATA")] = "",
    set: Settings = (),
    fresh: Annotated[bool, tyro.conf.arg(help="start over: remove an earlier run from the folder")] = False,
    device: Device = "auto",
) -> int:
    """Train a translator into a run folder. The same command resumes; on a finished run it says so.

    example: pellucid train --src train.de --tgt train.en --out run
    example: pellucid train multi30k-de-en --data-dir data --out run --set train.steps=500
    """
    import sys
    from dataclasses import replace

    from pellucid.config import Recipe
    from pellucid.workflow.train import train as run_training

    given = {"src": src, "tgt": tgt, "valid_src": valid_src, "valid_tgt": valid_tgt}
    texts: dict[str, Any] = {name: path for name, path in given.items() if path}
    loaded = Recipe.load(recipe, list(set))
    loaded = replace(loaded, data=replace(loaded.data, **texts))
    result = run_training(loaded, out, data_dir=data_dir, device=device, fresh=fresh)
    finished = "already finished, nothing to do;" if result.already_finished else "finished after"
    bleu = "" if result.valid_bleu is None else f", validation BLEU {result.valid_bleu:.2f}"
    summary = f"{finished} {result.steps:,} steps, validation loss {result.valid_loss:.3f}{bleu}"
    print(f"{out}: {summary}", file=sys.stderr)
    return 0
