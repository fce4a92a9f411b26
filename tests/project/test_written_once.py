"""What stands in two places is true in one of them: lists of words stand once, and are imported."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PACKAGE = Path(__file__).parents[2] / "src" / "pellucid"
LEAST = 3
"""Elements from which on equal lists are no accident."""
TWICE: dict[tuple[object, ...], str] = {
    ("", ".", ".."): "what no file may be called: of ours, and of Hugging Face's",
    ("aa", "ab", "ba", "bb"): "what a shell completes, without the views",
    ("argmax", "mutual", "threshold"): "what a shell completes, without torch",
    ("pellucid", "hf", "ct2", "onnx", "page"): "what a shell completes, without torch",
    ("spaces", "words", "characters"): "what a shell completes, without torch",
}
"""The exceptions. Where one of two is changed, they are not equal any more, and the test fails as well."""


def constants(path: Path) -> Iterator[tuple[object, ...]]:
    """The lists of words of a module: tuples, lists, sets, Literals and the words of a choice."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            elements = node.elts
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "of":
            elements = node.args
        else:
            continue
        words = [element.value for element in elements if isinstance(element, ast.Constant)]
        if len(elements) >= LEAST and len(words) == len(elements) and all(isinstance(word, str) for word in words):
            yield tuple(words)


@pytest.mark.slow
def test_lists_of_words_stand_once() -> None:
    found: dict[tuple[object, ...], set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for words in constants(path):
            found[words].add(path.relative_to(PACKAGE).as_posix())
    assert {words: places for words, places in found.items() if len(places) > 1}.keys() == TWICE.keys()
