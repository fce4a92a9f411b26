"""The budget: files that fit on a few screens, a model that can be read in one sitting, no drawers."""

from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "pellucid"
FILES = sorted(PACKAGE.rglob("*.py"))

MOST_LINES = 400
MOST_LINES_OF_THE_MODEL = 1000
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}


def lines(path: Path) -> int:
    """How many lines a file has."""
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_is_short(path: Path) -> None:
    assert lines(path) <= MOST_LINES


def test_the_model_can_be_read_in_one_sitting() -> None:
    model = {path.name: lines(path) for path in FILES if path.is_relative_to(PACKAGE / "model")}
    assert 0 < sum(model.values()) <= MOST_LINES_OF_THE_MODEL, model


def test_no_module_is_a_drawer() -> None:
    parts = {part for path in FILES for part in path.relative_to(PACKAGE).with_suffix("").parts}
    assert {part.strip("_") for part in parts} & DRAWERS == set()
