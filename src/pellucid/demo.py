"""Runs a complete training on generated data, through the same code as `pellucid train`."""

import time
from dataclasses import dataclass
from pathlib import Path

from pellucid.config import RECIPE, Recipe
from pellucid.data.dates import split_dates, write_parallel
from pellucid.errors import ConfigError
from pellucid.files.writing import convert_write_errors
from pellucid.run.run import train
from pellucid.tasks.translator import Translator
from pellucid.terminal import log_line
from pellucid.views.view import view
from pellucid.weights import to_page

PAIRS = 48_000
HELD_OUT = 1_000
SEED = 7
SHOWN = 8
EXAMPLES = 4
TRAINED = Path(__file__).parent / "recipes" / "dates"
"""The model that `trained` takes: docs/lessons.py trains it. Its weights are stored in half precision."""
DRAWN = "목요일"  # the plotted date has a weekday, which the model must learn to skip


@dataclass(frozen=True)
class DemoResult:
    """The result of the demo: the number of held-out dates translated exactly, and the number of all held-out dates."""

    exact: int
    total: int
    seconds: float


def run_demo(out: str | Path, device: str = "auto", *, trained: bool = False) -> DemoResult:
    """Writes a corpus of dates, trains on it, translates held-out dates, plots attention, and exports a page.

    All files are written below `out`. The page, `look.html`, contains the model and translates dates typed into it.

    If `trained`, nothing is trained: `run` becomes a copy of the model that is part of the package.

    A finished run in `out` is reused. Raises ConfigError if `out` is a file, or its `run` is a different run.
    """
    folder, started = Path(out), time.perf_counter()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"`{folder}` is a file, not a folder for the demo", "choose another `out=`")
    pairs, held_out = split_dates(PAIRS, SEED, HELD_OUT)
    with convert_write_errors(folder, "folder"):
        src, tgt = write_parallel(pairs, folder / "corpus", "train")
        write_parallel(held_out, folder / "corpus", "test")
    log_line(
        f"wrote {len(pairs):,} dates to {src} and {tgt}, and {len(held_out):,} to test on whose days are in neither"
    )
    if trained:
        _copy_trained(folder / "run")
    else:
        train(Recipe.load("dates", [f"data.src={src}", f"data.tgt={tgt}"]), folder / "run", device=device)
    translator = Translator.load(folder / "run", device)
    found = translator.translate([written for written, _ in held_out])
    for (written, iso), translation in list(zip(held_out, found, strict=True))[:SHOWN]:
        print(f"  {written}  ->  {translation.text}{'' if translation.text == iso else f'   (should be {iso})'}")
    exact = sum(translation.text == iso for (_, iso), translation in zip(held_out, found, strict=True))
    written, iso = next((pair for pair in held_out if DRAWN in pair[0]), held_out[0])
    _draw(translator, written, iso, folder / "attention.svg")
    others = [one for one, _ in held_out if one != written][: EXAMPLES - 1]
    to_page(translator, folder / "look.html", examples=[written, *others])
    return DemoResult(exact, len(held_out), time.perf_counter() - started)


def _copy_trained(run: Path) -> None:
    """Writes the model of the package as the model folder `run`. Raises ConfigError if a training is there."""
    if (run / RECIPE).exists():
        raise ConfigError(f"`{run}` is a run that was trained here", "choose another `out=`, or use the run as it is")
    with convert_write_errors(run, "folder"):
        Translator.load(TRAINED, "cpu").save(run)
    log_line(f"copied the model that comes with Pellucid to {run}")


def _draw(translator: Translator, written: str, iso: str, path: Path) -> None:
    """Plots each head of the last layer's cross-attention as SVG."""
    title = f"{written} → {iso}: cross-attention of the last layer, each head"
    view(translator.trace(written, iso), "matrix", attention="cross", title=title).svg(path)
    log_line(f"drew the attention of {written} in {path}")
