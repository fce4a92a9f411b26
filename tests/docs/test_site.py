"""The site: each guide and concept is in its navigation, and each public name in the reference of Python."""

import ast
import re
from pathlib import Path

import pellucid

DOCS = Path(__file__).parents[2] / "docs"


def test_each_public_name_stands_once_in_the_reference() -> None:
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    named = re.findall(r"^\.\. auto\w+:: pellucid\.(\w+)$", page, re.MULTILINE)
    assert sorted(named) == sorted({*pellucid.__all__, "weights"})
    of_weights = re.findall(r"^\.\. autofunction:: pellucid\.weights\.(\w+)$", page, re.MULTILINE)
    assert sorted(of_weights) == sorted(pellucid.weights.__all__)


def test_the_navigation_names_each_guide_and_concept() -> None:
    tree = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    values = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and "NAVIGATION" in ast.dump(node.targets[0])
    ]
    navigation = ast.literal_eval(values[0])
    for caption in ("Guides", "Concepts", "Reference"):
        assert sorted(navigation[caption]) == sorted(path.stem for path in (DOCS / caption.lower()).glob("*.md"))
