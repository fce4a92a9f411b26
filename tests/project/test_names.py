"""Modules are no drawers, and docstrings say what a thing is or does."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PACKAGE = Path(__file__).parents[2] / "src" / "pellucid"
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}
RIDDLE = re.compile(r"(What|How|Whether|Of|Those|That|Where|Which|When|Who|Whose|Why)\b")
"""The openings after which a reader waits for the subject."""


def test_no_module_is_a_drawer() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    parts = {part for path in files for part in path.relative_to(PACKAGE).with_suffix("").parts}
    assert files
    assert {part.strip("_") for part in parts} & DRAWERS == set()


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of each docstring: of modules, classes, functions, and behind assignments."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        opens = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for before, here in pairwise([None, *body]):
            documents = isinstance(before, ast.Assign | ast.AnnAssign) or (before is None and opens)
            text = here.value.value if isinstance(here, ast.Expr) and isinstance(here.value, ast.Constant) else None
            if documents and isinstance(text, str):
                yield here.lineno, text.strip()


def test_docstrings_are_found_wherever_they_stand() -> None:
    source = '''"""M."""
A = 1
"""A."""
class C:
    """C."""
    x: int
    """X."""
    def f(self):
        """F."""
        call("not this")
'''
    assert sorted(docstrings(source)) == [(1, "M."), (3, "A."), (5, "C."), (7, "X."), (9, "F.")]


def test_no_docstring_opens_as_a_riddle() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text.splitlines()[0]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in docstrings(path.read_text(encoding="utf-8"))
        if RIDDLE.match(text)
    ]
    assert found == [], "say `Returns ...`, `Tells whether ...`, or what the thing is: `The number of ...`"
