"""The site: its pages are in its navigation, and each public name is in the reference of Python."""

import re
from pathlib import Path

import pellucid

ROOT = Path(__file__).parents[2]


def test_each_public_name_stands_once_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: pellucid\.(\w+)$", page, re.MULTILINE)
    assert sorted(named) == sorted({*pellucid.__all__, "weights"})


def test_each_guide_and_concept_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [*(ROOT / "docs" / "guides").glob("*.md"), *(ROOT / "docs" / "concepts").glob("*.md")]
    assert [page for page in pages if page.relative_to(ROOT / "docs").as_posix() not in navigation] == []
