"""No two modules of the package import each other, not even through others or from within a function."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PACKAGE = Path(__file__).parents[2] / "src" / "pellucid"

Imports = Mapping[str, frozenset[str]]


def imports_of(sources: Mapping[str, str]) -> Imports:
    """The modules that each module imports, at the top, in a function, or for the type checker alone.

    `sources` are texts by module name; a package bears its own name. `from a import b` imports the module a.b where
    there is one, else a.
    """
    return {
        name: frozenset(found for found in _imported(source, sources) if found != name)
        for name, source in sources.items()
    }


def _imported(source: str, known: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield from [name for name in (module, node.module) if name in known][:1]


def circles(imports: Imports) -> list[frozenset[str]]:
    """The sets of modules that reach each other, by Tarjan's algorithm; sorted by their names."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    waiting: list[str] = []
    found: list[frozenset[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        waiting.append(module)
        for other in sorted(imports[module]):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in waiting:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            start = waiting.index(module)
            circle = frozenset(waiting[start:])
            del waiting[start:]
            if len(circle) > 1:
                found.append(circle)

    for module in sorted(imports):
        if module not in number:
            visit(module)
    return sorted(found, key=sorted)


def modules_of_the_package() -> dict[str, str]:
    """The text of each module by its name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


@pytest.mark.slow
def test_no_modules_import_each_other() -> None:
    sources = modules_of_the_package()
    # The front door hands out names of all modules when they are asked for, and some take its version.
    imports = {name: found - {"pellucid"} for name, found in imports_of(sources).items() if name != "pellucid"}
    told = [" <-> ".join(sorted(circle)) for circle in circles(imports)]
    assert not told, "these import each other:\n" + "\n".join(told)


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({"p.a": "from p.b import f", "p.b": "import p.c", "p.c": ""}, []),
        ({"p.a": "from p.b import f", "p.b": "def f():\n from p import a"}, [{"p.a", "p.b"}]),
        ({"p.a": "import p.b", "p.b": "from p.c import x", "p.c": "class C:\n import p.a"}, [{"p.a", "p.b", "p.c"}]),
        (
            {"p.a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n from p.b import B", "p.b": "import p.a"},
            [{"p.a", "p.b"}],
        ),
        (
            {"p.a": "import p.b", "p.b": "import p.a", "p.c": "import p.d", "p.d": "import p.c\nimport p.a"},
            [{"p.a", "p.b"}, {"p.c", "p.d"}],
        ),
        ({"p": "from p.a import f", "p.a": "from p import b", "p.b": ""}, []),
    ],
    ids=["none", "within a function", "through a third", "for the type checker", "two", "a package and its module"],
)
def test_circles_are_found(sources: dict[str, str], found: list[set[str]]) -> None:
    assert circles(imports_of(sources)) == found
