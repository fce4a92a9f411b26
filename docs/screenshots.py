"""Takes the screenshots of docs/images: each view of the viewer, in a real browser.

    python docs/screenshots.py --date-run RUN --bert FOLDER

RUN is a run of the recipe `dates` that kept its checkpoints (the guide "Look at attention" has the command), FOLDER a
BERT-shaped Hugging Face folder. Needs playwright and a Chromium: that of Debian, or the one that CHROMIUM names.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pellucid
from pellucid.analysis.evolution import evolution
from pellucid.tasks.tracing import trace_text
from pellucid.views.view import View

IMAGES = Path(__file__).parent / "images"
DATE = "2024년 3월 7일 목요일"
PAIR = "The cat sat on the mat .", "It was very tired ."


@dataclass(frozen=True)
class Shot:
    """One picture: a view, and how the window is."""

    name: str
    view: View
    size: tuple[int, int] = (1100, 760)
    keys: Sequence[str] = field(default_factory=tuple)
    """Pressed before the picture is taken."""


def shots(date_run: Path, bert: Path) -> Iterator[Shot]:
    """All pictures."""
    translator = pellucid.Translator.load(date_run, "cpu")
    trace, wide = translator.trace(DATE), translator.trace(DATE, beam_size=4)
    yield Shot("heads", pellucid.view(trace, "heads", layer=1))
    yield Shot("matrix", pellucid.view(trace, "matrix", layer=1, head=2), keys=("ArrowDown", "ArrowRight"))
    yield Shot("model", pellucid.view(trace, "model"), (1100, 1000))
    yield Shot("neuron", pellucid.view(trace, "neuron", layer=1, head=2, row=4))
    yield Shot("beam", pellucid.view(wide, "beam"), (1100, 860))
    yield Shot("alignment", pellucid.view(trace, "alignment"))
    kept = evolution(date_run, DATE)
    yield Shot(
        "compare", pellucid.view(kept.traces[-1], "compare", other=kept.traces[0], layer=1, head=2), (1280, 1000)
    )
    yield Shot("evolution", pellucid.view(kept.traces[-1], "evolution", evolution=kept), (1280, 760))
    model, tokenizer = pellucid.weights.from_hugging_face(bert)
    read = trace_text(model, tokenizer, *PAIR)
    yield Shot("flow", pellucid.view(read, "flow", layer=3), (1280, 1000))
    yield Shot("pair", pellucid.view(read, "heads", layer=3, head=(1, 5)))
    yield Shot("model-of-bert", pellucid.view(read, "model"))


def main(argv: Sequence[str] | None = None) -> int:
    """Writes docs/images."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--date-run", type=Path, required=True, help="a run of the recipe `dates` with its checkpoints")
    parser.add_argument("--bert", type=Path, required=True, help="a BERT-shaped Hugging Face folder")
    parser.add_argument("--only", nargs="+", default=[], help="names of pictures; all where none is given")
    options = parser.parse_args(argv)
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for shot in shots(options.date_run, options.bert):
            if not options.only or shot.name in options.only:
                page = Path(folder) / f"{shot.name}.html"
                shot.view.html(page)
                take(page, shot)
    return 0


def take(page: Path, shot: Shot) -> None:
    """Opens the page without a network and writes its picture."""
    from playwright.sync_api import sync_playwright

    width, height = shot.size
    with sync_playwright() as playwright:
        chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": width, "height": height})
        tab.context.set_offline(True)
        tab.goto(page.as_uri())
        tab.evaluate("pellucid")
        for key in shot.keys:
            tab.keyboard.press(key)
        tab.wait_for_timeout(300)
        tab.screenshot(path=IMAGES / f"{shot.name}.png")
        browser.close()
    print(IMAGES / f"{shot.name}.png", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
