"""What the site makes of the pages besides what mkdocs does: files from beside docs/, links to them, equations.

The pages are written to be read as they lie in the repository, too: links lead to files, and equations stand in blocks
of ```math and in $`...`$. Equations become MathML, which browsers show without a script.
"""

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
BESIDE = {
    "README.md": "about.md",
    "README.ko.md": "ko/about.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Files beside docs/ that are pages of the site, and where."""

BLOCK = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"\$`([^`\n]+)`\$")
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages from beside docs/."""
    for name, place in BESIDE.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns equations into MathML, and links to files into links within the site."""
    origin = {place: ROOT / name for name, place in BESIDE.items()}
    here = origin.get(page.file.src_uri, ROOT / "docs" / page.file.src_uri)
    markdown = BLOCK.sub(lambda found: "\n" + convert(found[1].strip(), display="block") + "\n", markdown)
    parts = FENCED.split(markdown)
    for place in range(0, len(parts), 2):  # the others are code
        text = INLINE.sub(lambda found: convert(found[1]), parts[place])
        parts[place] = LINK.sub(lambda found: found[1] + _within(found[2], here, page.file.src_uri) + found[3], text)
    return "".join(parts)


def _within(link: str, here: Path, page: str) -> str:
    """Returns a link of the file `here` as one of the site's page `page`; what the site lacks leads to its place in
    the repository's description of itself."""
    name, mark, anchor = link.partition("#")
    if "://" in link or not name:
        return link
    target = (here.parent / name).resolve()
    up = "../" * page.count("/")
    if (beside := BESIDE.get(target.name)) and target.parent == ROOT:
        return f"{up}{beside}{mark}{anchor}"
    if target.is_relative_to(ROOT / "docs") and target.suffix:
        return f"{up}{target.relative_to(ROOT / 'docs').as_posix()}{mark}{anchor}"
    if target.is_relative_to(ROOT / "docs"):
        return f"{up}{_first_page(target)}"
    return f"{up}about.md#what-lies-where"


def _first_page(folder: Path) -> str:
    pages = sorted(folder.glob("*.md"), key=lambda path: (path.name != "README.md", path.name))
    return pages[0].relative_to(ROOT / "docs").as_posix()
