"""The page of current figures says what the measurements say, and the README says what that page says."""

import re

import pytest

from tests.docs.pages import ROOT, Page

FIGURES = Page(ROOT / "docs" / "reference" / "figures.md")
DATE = re.compile(r"\[(\d{4}-\d\d-\d\d)\]\((\.\./results/[^)#]+)(?:#[^)]*)?\)")
ROWS = [row for row in FIGURES.table_rows if len(row) == 6 and row[0] != "what" and "---" not in row[0]]
MACHINES = {row[0] for row in FIGURES.table_rows if len(row) == 2}


def numbers(text: str) -> set[str]:
    """Returns the numbers of a text, without signs, and none of the targets of links."""
    return set(re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?|\.\d+", re.sub(r"\]\([^)]*\)", "]", text)))


def test_there_are_rows_of_each_column() -> None:
    assert len(ROWS) > 50


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0][:40]} {row[4][:12]}")
def test_a_value_stands_on_the_page_of_its_measurement(row: list[str]) -> None:
    _, value, seeds, machine, dated, command = row
    date, link = DATE.fullmatch(dated).groups()  # type: ignore[union-attr]
    measured = Page((FIGURES.path.parent / link).resolve())
    assert measured.path.name.startswith(date)
    assert numbers(value)
    assert numbers(value) <= numbers(measured.text)
    assert machine[0] in MACHINES
    assert re.fullmatch(r"\d*", seeds)
    assert command


@pytest.mark.parametrize("name", ["README.md", "README.ko.md"])
def test_the_readme_has_six_figures_of_the_page(name: str) -> None:
    rows = [row for row in Page(ROOT / name).table_rows[2:] if len(row) == 3]
    assert len(rows) == 6
    known = set().union(*(numbers(row[1]) for row in ROWS))
    assert [row for row in rows if not numbers(row[1]) or not numbers(row[1]) <= known] == []
