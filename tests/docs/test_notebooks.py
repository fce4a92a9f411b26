"""The lessons as notebooks: they are valid, have the code of the lessons in its order, and need no other file."""

import base64
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.lessons import DOCS, LESSONS, make_notebook, read_fences, write_notebooks

pytestmark = pytest.mark.foreign

each_lesson = pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.relative_to(DOCS).as_posix())


def read(page: Path) -> Any:
    nbformat = importlib.import_module("nbformat")
    notebook = nbformat.reads(make_notebook(page), as_version=4)
    nbformat.validate(notebook)
    return notebook


@each_lesson
def test_a_notebook_has_the_code_of_its_lesson(page: Path) -> None:
    notebook = read(page)
    assert notebook.metadata.kernelspec.language == "python"
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    fences = list(read_fences(page.read_text(encoding="utf-8")))
    assert cells == [("%%sh\n" if fence.language == "sh" else "") + fence.code.rstrip("\n") for fence in fences]


@each_lesson
def test_its_words_pictures_and_links(page: Path) -> None:
    notebook = read(page)
    words = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    text = "\n".join(cell.source for cell in words)
    assert all(heading in text for heading in page.read_text(encoding="utf-8").splitlines() if heading[:2] == "# ")
    pictures = {name: data for cell in words for name, data in cell.get("attachments", {}).items()}
    name = f"{page.stem}.svg"
    assert f"](attachment:{name})" in text
    assert ".svg)" not in text.replace(f"(attachment:{name})", "")
    assert base64.b64decode(pictures[name]["image/svg+xml"]) == (DOCS / "course" / name).read_bytes()
    others = [link.partition("#")[0] for link in re.findall(r"\]\(([^):]*\d\d-[^)]*)\)", text)]
    assert others
    assert all(link.endswith(".ipynb") for link in others)
    assert all((page.parent / link).with_suffix(".md").resolve() in LESSONS for link in others)


def test_all_are_written_and_the_same_twice(tmp_path: Path) -> None:
    write_notebooks(tmp_path)
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*"))
    assert found == sorted(page.relative_to(DOCS).with_suffix(".ipynb").as_posix() for page in LESSONS)
    first = tmp_path / found[0]
    assert first.read_text(encoding="utf-8") == make_notebook(DOCS / found[0].replace(".ipynb", ".md"))
    assert json.loads(first.read_text(encoding="utf-8"))["nbformat"] == 4
