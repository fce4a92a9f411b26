"""The documentation as the tests see it: pages with their headings, fences, inline code and links."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    """A Markdown file."""

    path: Path

    def __str__(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self.path.read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """What stands outside of fences."""
        return _FENCE.sub("", self.text)

    @property
    def headings(self) -> list[str]:
        """The headings, with their marks."""
        return re.findall(r"^#+ .+$", self.prose, re.MULTILINE)

    @property
    def anchors(self) -> set[str]:
        """What a link may name behind `#`."""
        return {anchor(heading) for heading in self.headings}

    @property
    def links(self) -> list[str]:
        """The targets of links and images."""
        return re.findall(r"\]\(([^)\s]+)\)", self.prose)

    @property
    def inline_code(self) -> list[str]:
        """What stands between single backticks."""
        return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", self.prose)

    @property
    def table_rows(self) -> list[list[str]]:
        """The cells of each row of each table."""
        rows = re.findall(r"^\|.*\|$", self.prose, re.MULTILINE)
        return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]

    def fences(self, *languages: str) -> list[str]:
        """The code of the fences in those languages."""
        return [code for language, code in _FENCE.findall(self.text) if language in languages]


def anchor(heading: str) -> str:
    """What a link names a heading by: in lower case, hyphens for spaces, marks left out."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower()).replace(" ", "-")


def _pages(*patterns: str) -> list[Page]:
    return [Page(path) for pattern in patterns for path in sorted(ROOT.glob(pattern))]


PAGES = _pages("*.md", "docs/**/*.md", "benchmarks/*.md")
DATED = _pages("CHANGELOG.md", "docs/results/**/*.md")
"""What was true at its time: its commands may be those of another version."""
LESSONS = _pages("docs/course/*.md", "docs/ko/course/*.md")
"""Lessons: their pieces of code build on each other and have no types. test_course.py runs them."""
CURRENT = [page for page in PAGES if page not in DATED]
