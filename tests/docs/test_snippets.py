"""The Python and TOML of the documentation runs, in a folder as `pellucid demo` leaves it, with a smaller model."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import pellucid
from pellucid.config import Recipe
from pellucid.data.dates import split_dates, write_parallel
from tests.docs.pages import CURRENT, LESSONS, ROOT, Page
from tests.processes import python

SNIPPETS = [(page, code) for page in CURRENT if page not in LESSONS for code in page.fences("python")]
TOML = [(page, code) for page in CURRENT for code in page.fences("toml")]
GUIDE = Page(ROOT / "docs" / "guides" / "first-model.md")

SHORT = ["train.steps=3", "train.save_every=1", "train.decode_and_evaluate=4", "decode.max_length=12"]
"""What makes a training one of seconds, and a translation by its model short."""


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader stands after the demo, and with two files of their own; to be copied."""
    here = tmp_path_factory.mktemp("reader")
    pairs, held_out = split_dates(300, seed=1, held_out=20)
    src, tgt = write_parallel(pairs, here / "pellucid-demo" / "corpus", "train")
    write_parallel(held_out, here / "pellucid-demo" / "corpus", "test")
    recipe = Recipe.load("dates", [f"data.src={src}", f"data.tgt={tgt}", *SHORT])
    pellucid.train(recipe, here / "pellucid-demo" / "run", device="cpu", quiet=True)
    shutil.copy(src, here / "train.de")
    shutil.copy(tgt, here / "train.en")
    for stem in ("valid", "test"):
        shutil.copy(here / "pellucid-demo" / "corpus" / "test.written", here / f"{stem}.de")
        shutil.copy(here / "pellucid-demo" / "corpus" / "test.iso", here / f"{stem}.en")
    return here


@pytest.fixture(scope="module")
def folder(untouched: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, for all pieces of Python: they may leave runs behind there."""
    return Path(shutil.copytree(untouched, tmp_path_factory.mktemp("snippets") / "reader"))


@pytest.mark.slow
@pytest.mark.parametrize(("page", "code"), SNIPPETS, ids=[f"{p} {i}" for i, (p, _) in enumerate(SNIPPETS)])
def test_python_runs(page: Page, code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.executable", python())
    exec(compile(code, str(page), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(("page", "code"), TOML, ids=[f"{p} {i}" for i, (p, _) in enumerate(TOML)])
def test_toml_is_a_recipe(page: Page, code: str) -> None:
    assert Recipe.from_tables(tomllib.loads(code)).data.src


def test_there_is_something_to_run() -> None:
    assert {str(page) for page, _ in SNIPPETS} >= {"README.md", "README.ko.md", str(GUIDE)}
    assert TOML


PELLUCID = """#!/usr/bin/env bash
verb=$1; shift
case $verb in
  demo) ;;  # the folder is as it leaves it
  train) exec {python} -m pellucid train "$@" {short} --device cpu ;;
  *) exec {python} -m pellucid "$verb" "$@" ;;
esac
"""


@pytest.mark.slow
def test_the_guide_runs_from_top_to_bottom(untouched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command as it is written; only the trainings are shorter."""
    here = tmp_path / "guide"
    shutil.copytree(untouched, here)
    program = here / "bin" / "pellucid"
    program.parent.mkdir()
    short = " ".join(f"--set {setting}" for setting in SHORT)
    program.write_text(PELLUCID.format(python=python(), short=short), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    script = "set -euo pipefail\n" + "".join(GUIDE.fences("sh"))
    done = subprocess.run(["bash", "-c", script], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "runs/dates: already finished" in done.stderr
