"""The public names: sorted, importable, documented, and known to type checkers as they are handed out."""

import ast
import inspect
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import GenericAlias, ModuleType

import pytest

import pellucid

pytestmark = pytest.mark.slow

DOORS = [pellucid, pellucid.weights]


def imported_for_type_checkers(door: ModuleType) -> dict[str, str]:
    """The names that a door imports where only type checkers look, with their modules."""
    tree = ast.parse(Path(str(door.__file__)).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    found = {}
    for node in (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)):
        for alias in node.names:
            assert alias.asname == alias.name, f"`{alias.name} as {alias.name}` makes it public"
            found[alias.name] = str(node.module)
    return found


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_what_type_checkers_see_is_what_is_handed_out(door: ModuleType) -> None:
    imports = imported_for_type_checkers(door)
    assert sorted(imports) == list(door.__all__)
    assert {name: home for name, home in imports.items() if name != "weights"} == door._HOMES


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_names_are_literal_sorted_and_listed(door: ModuleType) -> None:
    assert list(door.__all__) == sorted(set(door.__all__))
    assert set(door.__all__) <= set(dir(door))
    tree = ast.parse(Path(str(door.__file__)).read_text(encoding="utf-8"))
    values = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    assert ast.literal_eval(values[0]) == door.__all__


def sentence_below(module: str, alias: str) -> str | None:
    """The text that stands below the assignment of a type's other name, which has no docstring of its own."""
    body = ast.parse(inspect.getsource(import_module(module))).body
    for node, below in pairwise(body):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == alias and isinstance(below, ast.Expr):
            return str(ast.literal_eval(below.value))
    return None


@pytest.mark.parametrize(("door", "name"), [(door, name) for door in DOORS for name in door.__all__])
def test_name_is_importable_and_documented(door: ModuleType, name: str) -> None:
    public = getattr(door, name)
    documentation = vars(public).get("__doc__") if inspect.isclass(public) else public.__doc__
    if isinstance(public, GenericAlias):
        documentation = sentence_below(door._HOMES[name], name)
    assert documentation, f"`{door.__name__}.{name}` has no docstring"
    assert not documentation.startswith(f"{name}("), f"`{door.__name__}.{name}` has only the docstring of its fields"


def test_the_version_is_handed_out() -> None:
    assert pellucid.__version__[0].isdigit()
    assert "__version__" in dir(pellucid)


def test_an_unknown_name_is_an_attribute_error_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"no attribute `Translater`; did you mean `Translator`\?"):
        _ = pellucid.Translater  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute `no_such_name`$"):
        _ = pellucid.no_such_name  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"`pellucid\.weights` has no attribute `no_such_name`"):
        _ = pellucid.weights.no_such_name  # type: ignore[attr-defined]
