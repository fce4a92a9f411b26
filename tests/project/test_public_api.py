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


def homes_of(door: ModuleType) -> dict[str, str]:
    """The names that a package's stub lists, with their modules."""
    tree = ast.parse(Path(str(door.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    found = {}
    for node in (node for node in tree.body if isinstance(node, ast.ImportFrom)):
        (alias,) = node.names
        assert alias.asname == alias.name, f"`{alias.name} as {alias.name}` makes it public"
        assert alias.name not in found, f"`{alias.name}` is listed twice"
        found[alias.name] = str(node.module)
    return found


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_what_type_checkers_see_is_what_is_handed_out(door: ModuleType) -> None:
    homes = homes_of(door)
    assert list(door.__all__) == sorted(homes)
    assert set(door.__all__) <= set(dir(door))
    for name, home in homes.items():
        is_package = name in ("serve", "weights")
        expected = import_module(f"pellucid.{name}") if is_package else getattr(import_module(home), name)
        assert getattr(door, name) is expected


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
        documentation = sentence_below(homes_of(door)[name], name)
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
