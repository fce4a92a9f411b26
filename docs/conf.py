"""The site of the documentation, for Sphinx: `make docs` builds it into build/site.

The sources are the repository's own Markdown, as it lies there: this file adds the navigation and shows equations as
MathML, which browsers draw without a script. Pages load nothing from elsewhere.
"""

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

import pellucid

ROOT = Path(__file__).parents[1]

project, copyright, version = "Pellucid", "the Pellucid authors", pellucid.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/README"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md"]
html_theme, html_title, html_copy_source = "furo", "Pellucid", False
html_math_renderer = "mathml"
default_role = "code"
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True

NAVIGATION = {
    "Guides": [
        "first-model", "your-own-data", "clean-a-corpus", "classify-and-generate", "how-fast", "bulk-translation",
        "look-at-attention", "many-processes", "more-of-training", "a-small-model", "better-translations",
        "few-pairs", "many-languages", "text-of-one-language", "examine-a-model", "when-training-goes-wrong",
        "reading-a-score", "comet", "experiments", "how-sure", "your-own-parts", "from-a-tutorial",
        "a-page-with-the-model", "take-it-elsewhere", "recipes-and-data",
    ],
    "Concepts": [
        "paper-map", "shapes-and-masks", "family-tree", "text", "batching", "search", "streams", "resume", "faults",
        "time-budget", "speed", "gpu", "model-folder", "trace-file", "viewers",
        "page",
    ],
    "Reference": ["python", "command-line", "configuration", "errors"],
    "Decisions": [],
    "Results": [],
}  # fmt: skip
"""The pages of each folder of docs/ in the order of reading; what is not named follows by name."""
BESIDE = ["README", "SECURITY", "CONTRIBUTING", "CHANGELOG"]
TO_A_PLACE = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def navigation() -> str:
    """Returns the trees of pages, as the start page has them behind its text."""
    trees = [_tree("Pellucid", [f"/{name}" for name in BESIDE])]
    for caption, known in NAVIGATION.items():
        folder = caption.lower()
        found = sorted(path.stem for path in (ROOT / "docs" / folder).glob("*.md"))
        trees.append(_tree(caption, [f"{folder}/{name}" for name in [*known, *(n for n in found if n not in known)]]))
    korean = sorted((ROOT / "docs" / "ko").rglob("*.md"), key=lambda path: (path.name != "README.md", path))
    trees.append(_tree("한국어", ["/README.ko", *(f"/{path.relative_to(ROOT)}"[:-3] for path in korean)]))
    return "\n".join(trees)


def _tree(caption: str, pages: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def complete(app: Any, name: str, source: list[str]) -> None:
    """Adds the navigation to the start page, and writes equations and links to folders as Sphinx reads them."""
    text = re.sub(r"\$`([^`\n]+)`\$", r"$\1$", source[0])
    folder = (ROOT / f"{name}.md").parent
    text = TO_A_PLACE.sub(lambda link: f"{link[1]}" if (folder / link[2]).is_dir() else link[0], text)
    source[0] = f"{text}\n\n{navigation()}" if name == root_doc else text


def show_code(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Marks the indented examples of a docstring as code: ours are written without a mark."""
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


def open_at_the_start(app: Any, failure: Exception | None) -> None:
    """Writes the page that a web server shows first, which leads to the start page."""
    if failure is None and app.builder.format == "html":
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={root_doc}.html">'
        (Path(app.outdir) / "index.html").write_text(f"{page}\n", encoding="utf-8")


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (show_inline, None), (show_block, None))
    app.connect("source-read", complete)
    app.connect("build-finished", open_at_the_start)
    app.connect("autodoc-process-docstring", show_code, priority=400)  # before napoleon
