"""Messages from below the command line name parameters as a call has them; commands and options, it names itself."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pellucid.cli.verbs import VERBS

pytestmark = pytest.mark.slow

PACKAGE = Path(__file__).parents[2] / "src" / "pellucid"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name != "cli")
NAMED = re.compile(r"`([a-z]\w*)=")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
OTHERS = {"attn_implementation", "output_attentions"}
"""Parameters of transformers'."""
COMMAND = re.compile(r"`sacrebleu\b[^`]*`")
"""A whole command of another program may have its options."""
VERB = re.compile(rf"\bpellucid (?:{'|'.join(VERBS)})\b|`(?:{'|'.join(VERBS)}) \w+`|`-\w ")
"""A command of ours, a verb with an argument, or an option of one letter."""
COMMANDS = {"config/tasks.py", "weights/card.py"}
"""Where commands are told by design: how a model is used, in Python and on the command line."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def parameters() -> set[str]:
    """The names of all parameters of functions, those of verbs included, and of the fields of their options."""
    found: set[str] = set()
    for node in (node for path in PACKAGE.rglob("*.py") for node in ast.walk(tree_of(path))):
        if isinstance(node, ast.arguments):
            found |= {argument.arg for argument in [*node.posonlyargs, *node.args, *node.kwonlyargs]}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each string of a module that is not a docstring; of an f-string what stands between."""
    tree = tree_of(path)
    below = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            below |= {id(value) for value in node.values}
            yield node.lineno, "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in below:
            yield node.lineno, node.value


def _found(pattern: re.Pattern[str], without: re.Pattern[str]) -> list[str]:
    """Returns where the messages of modules, but those that tell commands by design, hold `pattern`."""
    names = {path: path.relative_to(PACKAGE).as_posix() for path in MODULES}
    return [
        f"{name}:{line}: {text}"
        for path, name in names.items()
        if name not in COMMANDS
        for line, text in strings(path)
        if pattern.search(without.sub("", text))
    ]


def test_no_option_of_the_command_line_is_named() -> None:
    assert _found(OPTION, COMMAND) == [], "write `name=` or `name=value`, which becomes an option"


@pytest.mark.slow
def test_no_command_is_named() -> None:
    assert _found(VERB, COMMAND) == [], "name the function, or its parameter"


@pytest.mark.slow
def test_what_messages_name_are_parameters() -> None:
    known = parameters() | OTHERS
    named = {(name, path) for path in MODULES for _, text in strings(path) for name in NAMED.findall(text)}
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "argument"
            if is_call and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
                named.add((str(node.args[0].value), path))  # type: ignore[attr-defined]
    assert len(named) > 20
    assert {f"{name} in {path.name}" for name, path in named if name not in known} == set()
