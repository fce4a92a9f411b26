"""What the documentation points to is there: files, headings, functions, tests."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.docs.pages import CURRENT, PAGES, ROOT, Page

PACKAGE = ROOT / "src" / "pellucid"
DOCS = ROOT / "docs"
INDEXES = [Page(DOCS / name / "README.md") for name in (".", "ko", "decisions", "results")] + [
    Page(DOCS / "reference" / "python.md")
]


def broken_links(page: Page) -> list[str]:
    """The relative links of a page that lead nowhere."""
    found = []
    for link in page.links:
        name, _, anchor = link.partition("#")
        if "://" in name:
            continue
        target = (page.path.parent / name).resolve() if name else page.path
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            found.append(link)
    return found


@cache
def anchors_of(path: Path) -> set[str]:
    """The anchors of a page's headings."""
    return set(Page(path).anchors)


@cache
def module_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def missing_names(page: Page) -> list[str]:
    """The files in inline code, `model/masks.py` or `model/masks.py::causal_mask`, that are not there."""
    found = []
    for code in page.inline_code:
        name, _, qualified = code.partition("::")
        if not name.endswith(".py") or " " in name or name == name.upper():
            continue
        path = next((folder / name for folder in (ROOT, PACKAGE, page.path.parent) if (folder / name).is_file()), None)
        if path is None or (qualified and not defines(path, qualified.split("."))):
            found.append(code)
    return found


def defines(path: Path, names: list[str]) -> bool:
    """Whether a module defines a class or function, or a class of it a method."""
    body = module_of(path).body
    for name in names:
        definitions = (node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef))
        definition = next((node for node in definitions if node.name == name), None)
        if definition is None:
            return False
        body = definition.body
    return True


def test_each_link_leads_somewhere() -> None:
    assert {str(page): broken for page in PAGES if (broken := broken_links(page))} == {}


def test_each_file_function_and_test_is_there() -> None:
    assert {str(page): missing for page in CURRENT if (missing := missing_names(page))} == {}


def test_each_page_is_listed() -> None:
    listed = {(index.path.parent / link).resolve() for index in INDEXES for link in index.links}
    pages = {page.path for page in PAGES if page.path.is_relative_to(DOCS)}
    assert pages <= listed | {DOCS / "README.md"}


def test_the_tree_is_the_package() -> None:
    tree = next(code for code in Page(ROOT / "CONTRIBUTING.md").fences("text") if code.startswith("src/pellucid/"))
    drawn = set(re.findall(r"^  (\w+)/", tree, re.MULTILINE))
    assert drawn == {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | {"recipes"}


def test_each_picture_is_shown_by_a_page() -> None:
    shown = {(page.path.parent / link).resolve() for page in PAGES for link in page.links}
    assert set((DOCS / "images").iterdir()) <= shown


def test_each_row_of_the_paper_map_has_code_and_a_test() -> None:
    rows = [row for row in Page(ROOT / "docs" / "concepts" / "paper-map.md").table_rows if "---" not in row[0]]
    entries = [row for row in rows if row[0] != "section"]
    assert len(entries) > 20
    for _, code, held_by, _ in entries:
        assert "::" in code
        assert "`tests/" in held_by


def test_what_is_missing_is_found(tmp_path: Path) -> None:
    page = Page(tmp_path / "page.md")
    page.path.write_text(
        "# A title, with marks\n[a](no-such.md) [b](#a-title-with-marks) [c](#other) `model/nothing.py` "
        "`model/masks.py::nothing` `model/masks.py::causal_mask` `model/cache.py::DecoderCache.reorder`\n",
        encoding="utf-8",
    )
    assert broken_links(page) == ["no-such.md", "#other"]
    assert missing_names(page) == ["model/nothing.py", "model/masks.py::nothing"]
