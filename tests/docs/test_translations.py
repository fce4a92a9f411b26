"""The README in another language says the same: as many headings, the same code, the same figures."""

import re

from tests.docs.pages import ROOT, Page

ENGLISH, KOREAN = Page(ROOT / "README.md"), Page(ROOT / "README.ko.md")
FIGURE = re.compile(r"RESULT:[\w-]+|\d+(?:[.,]\d+)*")


def levels(page: Page) -> list[str]:
    """How deep each heading is."""
    return [heading.split()[0] for heading in page.headings]


def figures(page: Page) -> list[list[str]]:
    """The numbers, and the places for numbers, of each row of each table."""
    return [sorted(FIGURE.findall(" | ".join(row))) for row in page.table_rows]


def without_remarks(code: str) -> list[str]:
    """The lines of code, without what stands behind `#` and without the annotations of a tree."""
    return [re.split(r"  +", line.partition("#")[0].strip())[0] for line in code.splitlines()]


def test_headings_stand_at_the_same_places() -> None:
    assert levels(KOREAN) == levels(ENGLISH)


def test_code_is_the_same() -> None:
    languages = ("sh", "python", "text", "toml", "")
    english, korean = ENGLISH.fences(*languages), KOREAN.fences(*languages)
    assert [without_remarks(code) for code in korean] == [without_remarks(code) for code in english]


def test_tables_have_the_same_rows_and_figures() -> None:
    assert figures(KOREAN) == figures(ENGLISH)


def test_links_lead_to_the_same_places() -> None:
    language = {"README.md", "README.ko.md"}
    assert set(KOREAN.links) - language == set(ENGLISH.links) - language


def test_inline_code_is_the_same() -> None:
    assert sorted(set(KOREAN.inline_code)) == sorted(set(ENGLISH.inline_code))


def test_each_points_to_the_other() -> None:
    assert "README.ko.md" in ENGLISH.links
    assert "README.md" in KOREAN.links
