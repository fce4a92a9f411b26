"""Runs the lessons of docs/course and docs/ko/course, and makes what they need.

    python docs/lessons.py            runs the lessons of both languages, the long trainings, too: `make course`
    python docs/lessons.py model      trains the model that `pellucid demo --trained` copies: some minutes
    python docs/lessons.py pictures   draws the pictures of the lessons again
    python docs/lessons.py notebooks  writes the lessons as notebooks below build/notebooks: `make notebooks`

The fences of a lesson run in their order in one folder: Python in one namespace, shell by bash. A `text` fence right
after a fence is the output that the fence must print. A fence after the line `<!-- long -->` trains for minutes, and
one after `<!-- elsewhere -->` needs a network or a file of the reader: the tests run neither. One after
`<!-- yours -->` reads the reader's mine.py: the tests put docs/course/answers.py in its place. Lessons with the same
code and outputs, as one in English and its Korean, run once.
"""

import base64
import contextlib
import html
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
LESSONS = [page for folder in ("course", "ko/course") for page in sorted((DOCS / folder).glob("[0-9]*.md"))]
ANSWERS = DOCS / "course" / "answers.py"
FENCE = re.compile(r"^(?:<!-- (long|elsewhere|yours) -->\n)?```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHAPE = ["model.d_model=64", "model.d_ff=256", "train.steps=2000"]
"""The settings in which the model of the package differs from the recipe dates: half of its size."""


LIVE = re.compile(r"^(\[[^\]]+\]\([^)]*\)): `pellucid-demo/look\.html#([^`]+)`\. (.+)$", re.MULTILINE)
"""The line of a lesson's live figure: a link to how one gets the page, the page's address, a sentence."""
LIVE_PAGE = "_static/live.html"
"""The page of the package's model on the site, which is made when the site is built."""
NOTEBOOKS = DOCS.parent / "build" / "notebooks"
PYTHON = """\
---
jupyter:
  kernelspec:
    display_name: Python 3
    language: python
    name: python3
---

"""
"""The header of a notebook of Python; without it jupytext takes the most frequent language of a lesson."""
PICTURE = re.compile(r"\]\(([^)\s]+\.svg)\)")
OTHER_LESSON = re.compile(r"\]\(((?:[./]|ko/)*(?:course/)?\d\d-[\w-]+)\.md")


@dataclass(frozen=True)
class Fence:
    """A piece of code of a lesson."""

    language: str
    code: str
    mark: str
    """long, elsewhere, yours, or empty."""
    output: str | None
    """The text that it must print; None: any."""


def read_fences(text: str) -> Iterator[Fence]:
    """Yields the Python and shell fences of a lesson."""
    found = list(FENCE.finditer(text))
    for place, match in enumerate(found):
        mark, language, code = match.groups()
        if language == "text":
            continue
        after = found[place + 1] if place + 1 < len(found) else None
        follows = after is not None and after[2] == "text" and not text[match.end() : after.start()].strip()
        yield Fence(language, code, mark or "", after[3] if after and follows else None)


def group_lessons() -> list[list[Path]]:
    """Returns the lessons in groups with the same fences: to run the first of a group is to run all of it."""
    groups: dict[tuple[Fence, ...], list[Path]] = {}
    for page in LESSONS:
        groups.setdefault(tuple(read_fences(page.read_text(encoding="utf-8"))), []).append(page)
    return list(groups.values())


def run_lesson(page: Path, folder: Path, *, long: bool = False) -> None:
    """Runs a lesson in `folder`, which holds `pellucid-demo`, and prints the output of its long trainings.

    Raises AssertionError for another output than that of the lesson.
    """
    program = folder / "bin" / "pellucid"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pellucid "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    names: dict[str, Any] = {"__name__": "__main__"}
    for fence in read_fences(page.read_text(encoding="utf-8")):
        if fence.mark == "elsewhere" or (fence.mark == "long" and not long):
            continue
        if fence.mark == "yours":
            shutil.copy(ANSWERS, folder / "mine.py")
        if fence.language == "sh":
            command = ["bash", "-euo", "pipefail", "-c", fence.code]
            done = subprocess.run(
                command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{page.name}: {fence.code}\n{done.stderr[-2000:]}"
            printed = done.stdout
        else:
            stream = io.StringIO()
            with contextlib.chdir(folder), contextlib.redirect_stdout(stream):
                exec(compile(fence.code, str(page), "exec"), names)
            printed = stream.getvalue()
        if fence.mark == "long":
            print(printed, end="")
        same = fence.output is None or printed.split() == fence.output.split()
        assert same, f"{page.name}: {fence.code}\nprinted\n{printed}\nnot\n{fence.output}"


def run_all() -> None:
    """Runs all lessons with their long parts, each in a folder of its own, and prints the processor time of each."""
    import pellucid.demo

    with tempfile.TemporaryDirectory() as place:
        start = Path(place) / "start"
        pellucid.demo.run_demo(start / "pellucid-demo", "cpu", trained=True)
        for number, pages in enumerate(group_lessons()):
            began = sum(os.times()[:4])
            run_lesson(pages[0], Path(shutil.copytree(start, Path(place) / f"lesson-{number}")), long=True)
            names = " and ".join(page.relative_to(DOCS).as_posix() for page in pages)
            print(f"{names}: {sum(os.times()[:4]) - began:.0f} s of processor time", flush=True)


def train_model() -> None:
    """Trains the model of the package on the demo's dates, and writes it in half precision."""
    import torch

    import pellucid
    from pellucid.data.dates import split_dates, write_parallel
    from pellucid.demo import HELD_OUT, PAIRS, SEED, TRAINED

    pairs, held_out = split_dates(PAIRS, SEED, HELD_OUT)
    with tempfile.TemporaryDirectory() as place:
        src, tgt = write_parallel(pairs, place, "train")
        recipe = pellucid.Recipe.load("dates", [f"data.src={src}", f"data.tgt={tgt}", *SHAPE])
        pellucid.train(recipe, Path(place) / "run", device="cpu")
        pellucid.plot_run(Path(place) / "run", title="Training of the dates").svg(DOCS / "course" / "08-training.svg")
        write_model(Path(place) / "run", TRAINED)
    translator = pellucid.Translator.load(TRAINED, "cpu", torch.float32)
    found = translator.translate([written for written, _ in held_out])
    exact = sum(translation.text == iso for translation, (_, iso) in zip(found, held_out, strict=True))
    print(f"{exact:,} of {HELD_OUT:,} held-out dates are right")


def write_model(run: Path, folder: Path) -> None:
    """Writes the model of a run, in half precision, as the model of the package."""
    import torch

    import pellucid

    shutil.rmtree(folder, ignore_errors=True)
    pellucid.Translator.load(run, "cpu", torch.float16).save(folder)


def draw_pictures() -> None:
    """Draws the pictures of the lessons by the commands in them; `model` draws the one of the training."""
    import pellucid.demo

    with tempfile.TemporaryDirectory() as place:
        pellucid.demo.run_demo(Path(place) / "pellucid-demo", "cpu", trained=True)
        for page in (DOCS / "course").glob("[0-9]*.md"):
            for fence in read_fences(page.read_text(encoding="utf-8")):
                if fence.code.startswith("pellucid ") and fence.code.endswith("-o course.svg\n") and not fence.mark:
                    command = [sys.executable, "-m", *shlex.split(fence.code)]
                    subprocess.run(command, cwd=place, check=True)
                    shutil.copy(Path(place) / "course.svg", page.with_suffix(".svg"))


def read_addresses(text: str) -> list[dict[str, str]]:
    """Returns what each live figure of a lesson chooses in the page: {"view": "beam", "text": "le 3 mai 2021"}."""
    return [dict(urllib.parse.parse_qsl(match[2])) for match in LIVE.finditer(text)]


def frame_live_figures(text: str, to_root: str, language: str) -> str:
    """Returns a lesson with each live figure as a frame, for the site; `to_root` leads from the lesson to the root."""

    def frame(match: re.Match[str]) -> str:
        chosen = {**dict(urllib.parse.parse_qsl(match[2])), "language": language}
        address = html.escape(f"{to_root}{LIVE_PAGE}#{urllib.parse.urlencode(chosen)}")
        title = html.escape(match[3])
        return (
            f'{match[1]}: {match[3]}\n\n<iframe class="live" src="{address}" title="{title}" loading="lazy"></iframe>'
        )

    return LIVE.sub(frame, text)


def write_live_page(path: Path) -> None:
    """Writes the page of the package's model, which the live figures of the site open."""
    from pellucid.demo import TRAINED
    from pellucid.tasks.translator import Translator
    from pellucid.weights import to_page

    path.parent.mkdir(parents=True, exist_ok=True)
    to_page(Translator.load(TRAINED, "cpu"), path, examples=["2024년 3월 7일", "le 3 mai 2021"])


def write_notebooks(folder: Path = NOTEBOOKS) -> None:
    """Writes each lesson as a notebook below `folder`, in the tree of docs/. The extra group `docs` has jupytext."""
    for page in LESSONS:
        path = folder / page.relative_to(DOCS).with_suffix(".ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make_notebook(page), encoding="utf-8", newline="\n")
        print(path)


def make_notebook(page: Path) -> str:
    """Returns a lesson as a notebook: a cell for each fence of code, links to notebooks, and the pictures inside."""
    import jupytext

    text = OTHER_LESSON.sub(r"](\1.ipynb", page.read_text(encoding="utf-8"))
    notebook = jupytext.reads(PYTHON + text, fmt="md")
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # the same at each call
        for link in PICTURE.findall(cell.source) if cell.cell_type == "markdown" else ():
            picture = (page.parent / link).resolve()
            cell.source = cell.source.replace(f"]({link})", f"](attachment:{picture.name})")
            data = base64.b64encode(picture.read_bytes()).decode()
            cell.setdefault("attachments", {})[picture.name] = {"image/svg+xml": data}
    return str(jupytext.writes(notebook, fmt="ipynb"))


def main(arguments: list[str]) -> int:
    """Runs a command of this script. Returns the exit status."""
    commands: dict[tuple[str, ...], Callable[[], None]] = {
        (): run_all, ("model",): train_model, ("pictures",): draw_pictures, ("notebooks",): write_notebooks,
    }  # fmt: skip
    if tuple(arguments) not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    commands[tuple(arguments)]()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
