"""What is passed over when tests are collected holds none of those asked for."""

import ast
from pathlib import Path

import pytest

from tests.conftest import MARKS, WHOLLY

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("mark", "folder"), [(mark, folder) for mark, folders in WHOLLY.items() for folder in folders])
def test_each_file_has_the_mark(mark: str, folder: str) -> None:
    files = sorted((ROOT / folder).rglob("test_*.py"))
    assert files
    for path in files:
        found = [
            ast.unparse(node.value)
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        ]
        assert found, path
        assert f"pytest.mark.{mark}" in found[0], path


def test_no_test_gets_a_mark_from_another_file() -> None:
    """Files that do not name the mark asked for are not read."""
    marks = [f"mark.{mark}" for mark in MARKS]
    others = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    assert len(others) > 10
    assert [path for path in others if any(mark in path.read_text(encoding="utf-8") for mark in marks)] == []
