"""Runs a whole training on data that this project makes, through the same code as `pellucid train`."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pellucid.config import Recipe
from pellucid.data.dates import split_dates, write_parallel
from pellucid.errors import ConfigError
from pellucid.files.writing import refusals_in_words
from pellucid.run.run import train
from pellucid.tasks.translator import Translator
from pellucid.views.view import view
from pellucid.weights import to_page

PAIRS = 48_000
HELD_OUT = 1_000
SEED = 7
SHOWN = 8
EXAMPLES = 4
DRAWN = "목요일"  # a date with its weekday is drawn, which the model must learn to skip


@dataclass(frozen=True)
class DemoResult:
    """Holds what the demo came to: how many held-out dates are right to the last character, and of how many."""

    exact: int
    total: int
    seconds: float


def run_demo(out: str | Path, device: str = "auto") -> DemoResult:
    """Writes a corpus of dates, trains on it, translates held-out dates, draws one's attention, and makes a page.

    All of it lies below `out`; the page, `look.html`, holds the model: dates typed into it are translated there.

    A finished run in `out` is used as it is. Raises ConfigError where `out` is a file, or its `run` is another run.
    """
    folder, started = Path(out), time.perf_counter()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"`{folder}` is a file, not a folder for the demo", "choose another `out=`")
    pairs, held_out = split_dates(PAIRS, SEED, HELD_OUT)
    with refusals_in_words(folder, "folder"):
        src, tgt = write_parallel(pairs, folder / "corpus", "train")
        write_parallel(held_out, folder / "corpus", "test")
    _say(f"wrote {len(pairs):,} dates to {src} and {tgt}, and {len(held_out):,} to test on whose days are in neither")
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


def _draw(translator: Translator, written: str, iso: str, path: Path) -> None:
    """Draws each head of the last layer's cross-attention."""
    title = f"{written} → {iso}: cross-attention of the last layer, each head"
    view(translator.trace(written, iso), "matrix", attention="cross", title=title).svg(path)
    _say(f"drew the attention of {written} in {path}")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
