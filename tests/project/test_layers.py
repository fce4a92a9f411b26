"""Imports go one way: each area of the package imports from the areas below it, and nothing else."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pellucid"

# From the ground up; the areas of a line do not import each other.
ORDER = (
    ("errors", "process"),
    ("workers",),
    ("files",),
    ("config",),
    ("model", "text"),
    ("data", "decoding", "weights", "tracing"),
    ("evaluation",),
    ("training", "tasks"),
    ("planning",),
    ("run",),
    ("analysis", "streams"),
    ("views",),
    ("conversion", "demo", "distillation", "sweep"),
    ("augmentation",),
    ("engines",),
    ("examining", "measuring"),
    ("cli",),
)
NEVER = {"decoding": {"text"}, "data": {"model"}}
"""What an area does without although it lies below: search knows ids alone, data no models."""

MAY_IMPORT = {
    area: {below for line in ORDER[:number] for below in line} - NEVER.get(area, set())
    for number, areas in enumerate(ORDER)
    for area in areas
}
# The package itself hands out names of all areas, when they are asked for; the command line shows its version.
MAY_IMPORT["pellucid"] = set(MAY_IMPORT)
MAY_IMPORT["cli"].add("pellucid")
# So does pellucid.weights, where people look for `to_page`: what writes a page knows the page.
WEIGHTS = Path("weights/__init__.py")

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


IMPORTED_AS = {"pyyaml": "yaml", "mlflow_skinny": "mlflow"}


def _import_names(requirements: list[str]) -> set[str]:
    names = {re.split(r"[^\w-]", requirement)[0].replace("-", "_") for requirement in requirements}
    return {IMPORTED_AS.get(name, name) for name in names}


REQUIRED = _import_names(_PROJECT["dependencies"])
EXTRAS = {name for requirements in _PROJECT["optional-dependencies"].values() for name in _import_names(requirements)}


def violations(path: Path, source: str) -> list[str]:
    """The imports of a module at `path`, relative to the package, that the rules above forbid."""
    area = _area_of(path)
    found = []
    for node, inside_function in _imports(ast.parse(source)):
        for name in _imported_names(node):
            if reason := _objection(area, name, inside_function):
                found.append(f"{path}:{node.lineno}: {reason}")
    return found


def _area_of(path: Path) -> str:
    if path == WEIGHTS:
        return "pellucid.weights"
    if path.name == "__main__.py" and len(path.parts) == 1:
        return "cli"
    return "pellucid" if path.name == "__init__.py" and len(path.parts) == 1 else path.with_suffix("").parts[0]


def _imports(tree: ast.AST, inside_function: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, inside_function
        else:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports(node, inside_function or is_function)


def _imported_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Dotted names; `from pellucid import model` imports `pellucid.model`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.level:
        return ["." * node.level + (node.module or "")]
    if node.module == "pellucid":
        return [f"pellucid.{alias.name}" for alias in node.names]
    return [node.module or ""]


def _objection(area: str, name: str, inside_function: bool) -> str:
    """Why `area` may not import `name`, or an empty string."""
    root, _, rest = name.partition(".")
    if not root:
        return f"`{name}` is relative; write it as pellucid..."
    if root != "pellucid":
        return _objection_to_others(root, inside_function)
    imported = rest.partition(".")[0]
    imported = imported if imported in MAY_IMPORT else "pellucid"
    if area == "pellucid.weights":
        return "" if imported in MAY_IMPORT["cli"] else f"`weights` imports `{imported}`"
    if imported == area or imported in MAY_IMPORT[area]:
        return ""
    return f"`{area}` imports `{imported}`; it may import {', '.join(sorted(MAY_IMPORT[area])) or 'nothing'}"


def _objection_to_others(root: str, inside_function: bool) -> str:
    if root in sys.stdlib_module_names or root in REQUIRED or (root in EXTRAS and inside_function):
        return ""
    if root in EXTRAS:
        return f"`{root}` is an extra: import it inside the function that needs it"
    return f"`{root}` is no dependency in pyproject.toml"


@pytest.mark.slow
def test_imports_go_one_way() -> None:
    found = [
        line
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in violations(path.relative_to(PACKAGE), path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_each_area_has_its_place_in_the_order() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert folders | modules <= set(MAY_IMPORT)


def test_the_order_has_no_cycle() -> None:
    done: set[str] = set()
    remaining = {area: allowed - {"pellucid"} for area, allowed in MAY_IMPORT.items()}
    while remaining:
        ready = {area for area, allowed in remaining.items() if allowed <= done}
        assert ready, f"these import each other: {sorted(remaining)}"
        done |= ready
        remaining = {area: allowed for area, allowed in remaining.items() if area not in ready}


@pytest.mark.parametrize(
    ("path", "source", "objection"),
    [
        (
            "model/x.py",
            "from pellucid.training.loop import run",
            "`model` imports `training`; it may import config, errors, files, process",
        ),
        ("model/x.py", "def f():\n import pellucid.weights", "`model` imports `weights`"),
        (
            "model/x.py",
            "class A:\n async def f(self):\n  if self:\n   from pellucid import text",
            "`model` imports `text`",
        ),
        ("model/x.py", "from pellucid import Translator", "`model` imports `pellucid`"),
        ("decoding/x.py", "from pellucid.text.kinds import load", "`decoding` imports `text`"),
        ("data/x.py", "from pellucid.decoding import beam", "`data` imports `decoding`"),
        ("tasks/x.py", "import pellucid.training", "`tasks` imports `training`"),
        ("data/x.py", "import pellucid.model.masks", "`data` imports `model`"),
        ("errors.py", "from pellucid.config import Recipe", "`errors` imports `config`; it may import nothing"),
        ("model/x.py", "from . import attention", "is relative"),
        ("model/x.py", "from ..text import kinds", "is relative"),
        ("text/x.py", "import regex", "`regex` is no dependency"),
        ("weights/x.py", "import transformers", "`transformers` is an extra: import it inside"),
        ("weights/x.py", "def f():\n import pytest", "`pytest` is no dependency"),
    ],
)
def test_a_forbidden_import_is_found(path: str, source: str, objection: str) -> None:
    found = violations(Path(path), source)
    assert len(found) == 1
    assert objection in found[0]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("model/x.py", "import math\nimport torch.nn.functional as F\nfrom pellucid.model.masks import causal_mask"),
        ("weights/x.py", "def f():\n from transformers import AutoModel"),
        ("training/x.py", "from pellucid import data\nimport pellucid.model.transformer"),
        ("cli/train.py", "from pellucid import __version__\ndef f():\n from pellucid.views import view"),
        ("__main__.py", "from pellucid.cli.main import main"),
        ("__init__.py", "def __getattr__(name):\n from pellucid.run import train"),
    ],
)
def test_an_allowed_import_is_not(path: str, source: str) -> None:
    assert violations(Path(path), source) == []
