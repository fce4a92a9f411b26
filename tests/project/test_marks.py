"""Folders that are passed over where a mark is left out hold no test without it."""

import ast
from pathlib import Path

import pytest

from tests.conftest import WHOLLY

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
