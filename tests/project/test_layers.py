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
    ("lazy",),
    ("model.fast",),
    ("terminal",),
    ("waits",),
    ("workers",),
    ("files",),
    ("config",),
    ("model", "text"),
    ("data", "decoding", "weights", "tracing", "documents"),
    ("evaluation", "engines"),
    ("training", "tasks"),
    ("planning",),
    ("analysis", "properties"),
    ("run", "streams"),
    ("views",),
    ("conversion", "demo", "sweep", "synthetic_data"),
    ("model_checks", "benchmark", "judge", "serve"),
    ("cli",),
)
NEVER = {"decoding": {"text"}, "data": {"model"}, "documents": {"model"}}
"""What an area does without although it lies below: search knows ids alone, data no models."""

MAY_IMPORT = {
    area: {below for line in ORDER[:number] for below in line} - NEVER.get(area, set())
    for number, areas in enumerate(ORDER)
    for area in areas
}
# model.fast knows PyTorch and the errors alone; who does without models does without it.
MAY_IMPORT["model.fast"] = {"errors"}
for area in set(MAY_IMPORT) - {"model"}:
    if "model" not in MAY_IMPORT[area]:
        MAY_IMPORT[area].discard("model.fast")
# The package and pellucid.weights alone hand out names, by pellucid.lazy.
for area in set(MAY_IMPORT) - {"cli"}:
    MAY_IMPORT[area].discard("lazy")
# The package itself hands out names of all areas, when they are asked for; the command line shows its version.
MAY_IMPORT["pellucid"] = set(MAY_IMPORT)
MAY_IMPORT["cli"].add("pellucid")
# So does pellucid.weights, where people look for `to_page`: what writes a page knows the page.
WEIGHTS = Path("weights/__init__.py")

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _import_names(requirements: list[str]) -> set[str]:
    names = {re.split(r"[^\w-]", requirement)[0].replace("-", "_") for requirement in requirements}
    return names


COMPILED = "engines/compiled/vectors.py", "engines/compiled/layers.py"
"""The modules that consist of an extra's functions, numba's, and are imported inside functions alone."""
SERVING = "serve"
"""The area of the extra `serve`, whose modules its `__init__.py` and the verb import inside functions."""

REQUIRED = _import_names(_PROJECT["dependencies"])
EXTRAS = {name for requirements in _PROJECT["optional-dependencies"].values() for name in _import_names(requirements)}


def violations(path: Path, source: str) -> list[str]:
    """The imports of a module at `path`, relative to the package, that the rules above forbid."""
    area, tree = _area_of(path), ast.parse(source)
    found = []
    for node, inside_function in _imports(tree):
        for name in _imported_names(node):
            if reason := _objection(area, name, inside_function or _is_of_an_extra(path)):
                found.append(f"{path}:{node.lineno}: {reason}")
    for line, name in _module_names(tree):
        if reason := _objection(area, name, inside_function=True):
            found.append(f"{path}:{line}: {reason}, by a string")
    return found


def _is_of_an_extra(path: Path) -> bool:
    """Returns True for a module that is imported inside functions alone, where its extra is installed."""
    return path.as_posix() in COMPILED or (path.parts[0] == SERVING and path.name != "__init__.py")


def _module_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields the names of the package's modules in strings, which `import_module` may be called with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = re.fullmatch(r"pellucid\.(\w+)(\.\w+)*\.?", node.value)
            if name and name[1] in MAY_IMPORT:
                yield node.lineno, node.value.rstrip(".")


def _area_of(path: Path) -> str:
    if path == WEIGHTS:
        return "pellucid.weights"
    if path.parts[:2] == ("model", "fast"):
        return "model.fast"
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
    imported = "model.fast" if f"{rest}.".startswith("model.fast.") else rest.partition(".")[0]
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
            "`model` imports `training`; it may import config, errors, files, model.fast, process",
        ),
        ("model/x.py", "def f():\n import pellucid.weights", "`model` imports `weights`"),
        (
            "model/fast/x.py",
            "from pellucid.model.layers import Decoder",
            "`model.fast` imports `model`; it may import errors",
        ),
        ("data/x.py", "from pellucid.model.fast.gpu import send", "`data` imports `model.fast`"),
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
        ("text/x.py", "import requests", "`requests` is no dependency"),
        ("tasks/x.py", 'HOMES = {"page": "pellucid.views.page"}', "`tasks` imports `views`"),
        ("config/x.py", 'import_module("pellucid.tasks")', "`config` imports `tasks`"),
        ("tasks/x.py", 'import_module(f"pellucid.views.{name}")', "`tasks` imports `views`"),
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
        ("model/x.py", "import pellucid.model.fast.linear"),
        ("model/fast/x.py", "from pellucid.errors import ConfigError\nfrom pellucid.model.fast.gpu import send"),
        ("weights/x.py", "def f():\n from transformers import AutoModel"),
        ("training/x.py", "from pellucid import data\nimport pellucid.model.transformer"),
        ("cli/train.py", "from pellucid import __version__\ndef f():\n from pellucid.views import view"),
        ("__main__.py", "from pellucid.cli.main import main"),
        ("__init__.py", "def __getattr__(name):\n from pellucid.run import train"),
        ("__init__.py", 'HOMES = {"train": "pellucid.run.run"}'),
        ("tasks/x.py", 'hint = "pellucid.view shows it, and pellucid.json names it"'),
        ("weights/x.py", 'DESCRIPTION, HINT = "pellucid.json", "pellucid.train"'),
    ],
)
def test_an_allowed_import_is_not(path: str, source: str) -> None:
    assert violations(Path(path), source) == []
