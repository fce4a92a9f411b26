"""The public names: sorted, importable, documented."""

import ast
import inspect
from importlib import import_module
from itertools import pairwise
from types import GenericAlias

import pytest

import pellucid


def test_names_are_sorted_and_unique() -> None:
    assert list(pellucid.__all__) == sorted(set(pellucid.__all__))


def test_names_are_listed() -> None:
    assert set(pellucid.__all__) <= set(dir(pellucid))


def sentence_below(alias: str) -> str | None:
    """The text that stands below the assignment of a type's other name, which has no docstring of its own."""
    module = import_module(pellucid._HOMES[alias])
    body = ast.parse(inspect.getsource(module)).body
    for node, below in pairwise(body):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == alias and isinstance(below, ast.Expr):
            return str(ast.literal_eval(below.value))
    return None


@pytest.mark.parametrize("name", pellucid.__all__)
def test_name_is_importable_and_documented(name: str) -> None:
    public = getattr(pellucid, name)
    if name == "__version__":
        assert public[0].isdigit()
        return
    documentation = vars(public).get("__doc__") if inspect.isclass(public) else public.__doc__
    if isinstance(public, GenericAlias):
        documentation = sentence_below(name)
    assert documentation, f"`pellucid.{name}` has no docstring"
    assert not documentation.startswith(f"{name}("), f"`pellucid.{name}` has only the docstring of its fields"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pellucid.no_such_name  # type: ignore[attr-defined]
