"""The site of the documentation, for Sphinx: `make docs` builds it into build/site.

The sources are the repository's own Markdown, as it lies there: this file adds the navigation and shows equations as
MathML, which browsers draw without a script. Pages load nothing from elsewhere.
"""

import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

import pellucid

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from docs.lessons import LIVE_PAGE, frame_live_figures, write_live_page  # noqa: E402

project, copyright, version = "Pellucid", "the Pellucid authors", pellucid.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
root_doc = "docs/README"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md"]
html_theme, html_title, html_copy_source = "furo", f"Pellucid {version}", False
html_math_renderer = "mathml"
default_role = "code"
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")
FRAME = "iframe.live { width: 100%; height: 40rem; border: 1px solid #8884; border-radius: 0.5rem }"
START, KOREAN, API = root_doc, "docs/ko/README", "docs/reference/python"
ASIDE = {"docs/decisions/": "orphan: true", "docs/results/": "orphan: true\nnosearch: true"}
"""The folders that the sidebar leaves out, results the search as well: who looks for them comes by a link."""


def navigation() -> str:
    """Returns the trees of pages: for each door of the start page the pages that it names; the Korean pages."""
    doors = re.split(r"^## (.+)$", (ROOT / f"{START}.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    trees = [_tree("Pellucid", [("Install and first commands", "README"), ("한국어", KOREAN)])]
    trees += [_tree(door, _linked(START, text)) for door, text in zip(doors[1::2], doors[2::2], strict=True)]
    korean = _linked(KOREAN, (ROOT / f"{KOREAN}.md").read_text(encoding="utf-8"))
    return "\n".join([*trees, _tree("한국어", [page for page in korean if is_korean(page[1])])])


def is_korean(name: str) -> bool:
    """Tells whether a page is one in Korean."""
    return name.startswith("docs/ko/") or name == "README.ko"


def _linked(page: str, text: str) -> list[tuple[str, str]]:
    """Returns title and name of each page that a text links to, without links to sections and to the folders aside."""
    folder = (ROOT / page).parent
    links = [link for link in LINK.finditer(text) if not link[3]]
    found = [(link[1], (folder / link[2]).resolve()) for link in links if link[2].endswith(".md")]
    names = [(title, path.relative_to(ROOT).with_suffix("").as_posix()) for title, path in found]
    return [(title, name) for title, name in names if not name.startswith(tuple(ASIDE))]


def _tree(caption: str, pages: list[tuple[str, str]], *options: str) -> str:
    lines = [f"{title} </{name}>" for title, name in pages]
    return "\n".join(["```{toctree}", *(options or [":hidden:", f":caption: {caption}"]), "", *lines, "```", ""])


def complete(app: Any, name: str, source: list[str]) -> None:
    """Adds what a page has in the site alone: its place in the navigation, equations and links as Sphinx reads them."""
    text = re.sub(r"\$`([^`\n]+)`\$", r"$\1$", source[0])
    text = frame_live_figures(text, "../" * name.count("/"), "ko" if is_korean(name) else "en")
    folder = (ROOT / f"{name}.md").parent
    source[0] = LINK.sub(lambda link: f"{link[1]}" if (folder / link[2]).is_dir() else link[0], text)
    if name == START:
        source[0] += f"\n\n{navigation()}"
    elif name == API:
        source[0] += f"\n\n## All names\n\n{_tree('', _linked(API, text), ':maxdepth: 2')}"
    for folder_aside, marks in ASIDE.items():
        if name.startswith(folder_aside):
            source[0] = f"---\n{marks}\n---\n\n{source[0]}"


def say_the_language(app: Any, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Marks the Korean pages as Korean, whose lines break between words."""
    if is_korean(name):
        context["language"] = "ko"
        context["metatags"] += "<style>article { word-break: keep-all }</style>"
    if "/course/" in name:
        context["metatags"] += f"<style>{FRAME}</style>"


def show_code(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Marks the indented examples of a docstring as code, and keeps the sentence of an attribute whole.

    Ours are written without a mark; and of an attribute's text Napoleon takes what stands before a colon as its type.
    """
    if what in ("attribute", "data", "property"):
        lines.insert(0, "\\ ")
    for place in range(len(lines) - 1, 0, -1):
        before = lines[place - 1].strip()
        above = next((line for line in reversed(lines[: place - 1]) if line.strip()), "")
        begins = lines[place].startswith("    ") and not before and above and not above.startswith((" ", ".", ":"))
        if begins and not above.rstrip().endswith(("::", "Args:", "Raises:", "Returns:", "Yields:", "Attributes:")):
            lines.insert(place, "")
            lines.insert(place, "::")


def show_inline(self: Any, node: Any) -> None:
    self.body.append(convert(node.astext()))
    raise _skip()


def show_block(self: Any, node: Any) -> None:
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise _skip()


def _skip() -> Exception:
    from docutils.nodes import SkipNode

    return SkipNode()


def finish(app: Any, failure: Exception | None) -> None:
    """Writes the page that a web server shows first, which leads to the start page, and the page of live figures."""
    if failure is None and app.builder.format == "html":
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={root_doc}.html">'
        (Path(app.outdir) / "index.html").write_text(f"{page}\n", encoding="utf-8")
        write_live_page(Path(app.outdir) / LIVE_PAGE)


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (show_inline, None), (show_block, None))
    app.connect("source-read", complete)
    app.connect("html-page-context", say_the_language)
    app.connect("build-finished", finish)
    app.connect("autodoc-process-docstring", show_code, priority=400)  # before napoleon
