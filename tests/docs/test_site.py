"""The site: its sidebar is the start page, and each public name stands in the reference of Python."""

import re
from pathlib import Path

import pellucid
from tests.docs.pages import Page

DOCS = Path(__file__).parents[2] / "docs"


def test_each_public_name_stands_once_in_the_reference() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference" / "python").glob("*.md"))
    named = re.findall(r"^\.\. auto\w+:: pellucid\.(\w+)$", pages, re.MULTILINE)
    assert sorted(named) == sorted({*pellucid.__all__, "weights"})
    of_weights = re.findall(r"^\.\. autofunction:: pellucid\.weights\.(\w+)$", pages, re.MULTILINE)
    assert sorted(of_weights) == sorted(pellucid.weights.__all__)


def test_the_start_page_and_so_the_sidebar_names_each_guide_concept_and_reference() -> None:
    start = Page(DOCS / "README.md")
    named = {(DOCS / link).resolve() for link in start.links}
    pages = {path for folder in ("guides", "concepts", "reference") for path in (DOCS / folder).glob("*.md")}
    assert pages <= named
    assert [heading for heading in start.headings if heading.startswith("## ")][:3] == [
        "## Translate my texts",
        "## Understand the Transformer",
        "## Look up and build",
    ]


def test_the_start_page_names_no_decision_and_no_measurement() -> None:
    links = Page(DOCS / "README.md").links
    assert [link for link in links if link.startswith(("decisions/", "results/"))] == [
        "decisions/README.md",
        "results/README.md",
    ]
