"""No module is a drawer for what has no place."""

from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "pellucid"
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}


def test_no_module_is_a_drawer() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    parts = {part for path in files for part in path.relative_to(PACKAGE).with_suffix("").parts}
    assert files
    assert {part.strip("_") for part in parts} & DRAWERS == set()
