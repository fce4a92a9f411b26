"""Checks what no formatter knows of this repository; `make lint` runs it. Each finding is a line, the status then is 1.

What imports may go where is in test_layers.py, what may wait and read in test_limits.py.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from pellucid.cli.commands import VERBS  # noqa: E402
from tests.conftest import MARKS, WHOLLY  # noqa: E402

PACKAGE = ROOT / "src" / "pellucid"
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}

DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}
ADVERBS = {
    "alone", "apart", "as", "at", "before", "behind", "beside", "by", "for", "given", "how", "in", "kept",
    "made", "of", "on", "own", "shown", "told", "what", "whole", "with", "without", "written",
}  # fmt: skip
"""First words that make no function's name a verb, beside participles."""
VERBS_AND_NOUNS = re.compile(
    r"(embed|feed|need|seed|string|padding_mask|sampling|setting|training|learning_rate|embedding_init_scale|expected_bleu"
    r"|smoothed_cross_entropy|projected_\w+|fused_attention|unbiased_deviation|trained_tensors|named_parameters"
    r"|as_(svg|png|json)|for_\w+|on_\w+|in_parallel)$"
)
"""Functions that such a word may name: verbs, nouns of the field, the quantity that is computed, and callbacks."""
RIDDLE = re.compile(r"(What|How|Whether|Of|Those|That|Where|Which|When|Who|Whose|Why)\b")
"""The openings of a docstring after which a reader waits for the subject."""

COMMANDS = {"config/tasks.py", "weights/card.py", "weights/export/card.py", "data/doctor.py"}
"""Modules whose strings show commands by design: cards of models, and what a doctor of corpora prescribes."""
FOREIGN_COMMAND = re.compile(r"`(?:sacrebleu|xmllint|pandoc)\b[^`]*`")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
VERB = re.compile(rf"\bpellucid (?:{'|'.join(VERBS)})\b|`(?:{'|'.join(VERBS)}) \w+`|`-\w ")
NAMED = re.compile(r"`([a-z]\w*)=")
FOREIGN_PARAMETERS = {"attn_implementation", "output_attentions"}

# One letter of each stands in brackets, so that this file is not its own first finding.
MACHINE_PATHS = r"(?<![\w.-])/(?:wor[k]|far[m]|roo[t]|hom[e]/\w+|User[s]/\w+|opt/(?:wheel[s]|pyp[i]))\b"
REGISTRIES = r"pyp[i]\.org|pythonhoste[d]\.org|npmj[s]\.(?:com|org)|deb\.debia[n]\.org|conda\.anacond[a]\.org"
FORBIDDEN = re.compile(rf"{MACHINE_PATHS}|\.librar[y]\b|{REGISTRIES}")
Node = TypeVar("Node", bound=ast.AST)

LARGEST = 1_000_000
"""The bytes of the largest file that the repository may hold."""


def check_names() -> Iterator[str]:
    """Yields modules that are drawers, modules without a docstring, and docstrings that open as riddles."""
    for path, tree in TREES.items():
        if {part.strip("_") for part in path.relative_to(PACKAGE).with_suffix("").parts} & DRAWERS:
            yield f"{_place(path)}: a module is named by the idea that it holds"
        for line, text in docstrings(tree):
            if RIDDLE.match(text):
                opening = text.splitlines()[0]
                yield f"{_place(path, line)}: `{opening}`: say `Returns ...`, or what the thing is"
    for path in [*TREES, *(ROOT / "benchmarks").glob("*.py")]:
        tree = TREES.get(path) or ast.parse(path.read_text(encoding="utf-8"))
        if not ast.get_docstring(tree):
            yield f"{_place(path)}: the module has no docstring"


def check_words() -> Iterator[str]:
    """Yields functions that are not named by a verb, and classes that have the name of another one."""
    homes: dict[str, str] = {}
    for path, tree in TREES.items():
        for owner in (tree, *_nodes(tree, ast.ClassDef)):
            for node in owner.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                    first = node.name.partition("_")[0]
                    is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
                    if (first.endswith(("ed", "ing")) or first in ADVERBS) and not (
                        is_property or VERBS_AND_NOUNS.match(node.name)
                    ):
                        yield f"{_place(path, node.lineno)}: `{node.name}()`: a function is named by a verb"
        for node in (node for node in tree.body if isinstance(node, ast.ClassDef)):
            if node.name in homes:
                yield f"{_place(path, node.lineno)}: {homes[node.name]} has a class `{node.name}`, too"
            homes.setdefault(node.name, _place(path))


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of each docstring: of modules, classes, functions, and behind assignments."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        opens = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for before, here in pairwise([None, *body]):
            documents = isinstance(before, ast.Assign | ast.AnnAssign) or (before is None and opens)
            text = here.value.value if isinstance(here, ast.Expr) and isinstance(here.value, ast.Constant) else None
            if documents and isinstance(text, str):
                yield here.lineno, text.strip()


def check_messages() -> Iterator[str]:
    """Yields messages below the command line that name options, commands, or what is no parameter of a function."""
    known = {argument.arg for tree in TREES.values() for argument in _nodes(tree, ast.arg)} | FOREIGN_PARAMETERS
    known |= {
        node.target.id
        for tree in TREES.values()
        for node in _nodes(tree, ast.AnnAssign)
        if isinstance(node.target, ast.Name)
    }
    for path, tree in TREES.items():
        if path.parent.name == "cli":
            continue
        shows_commands = path.relative_to(PACKAGE).as_posix() in COMMANDS
        for line, text in strings(tree):
            own = FOREIGN_COMMAND.sub("", text)
            if not shows_commands and (OPTION.search(own) or VERB.search(own)):
                yield f"{_place(path, line)}: `{text}`: write `name=`, which becomes an option, and name functions"
            for name in NAMED.findall(text):
                if name not in known:
                    yield f"{_place(path, line)}: `{name}=` is no parameter"


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of each string that is no docstring; of an f-string what stands between values."""
    inner = {id(node.value) for node in _nodes(tree, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(value) for value in node.values}
            yield node.lineno, "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def check_imports() -> Iterator[str]:
    """Yields a circle of modules that import each other, at the top, in a function, or for the type checker alone."""
    names = {path: ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in TREES}
    names = {path: name.removesuffix(".__init__") for path, name in names.items()}
    known = set(names.values()) - {"pellucid"}  # the front door hands out names of all modules
    graph = {
        name: {found for found in _imported(TREES[path], known) if found != name}
        for path, name in names.items()
        if name in known
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"these import each other: {' <- '.join(error.args[1])}"


def _imported(tree: ast.Module, known: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:  # `from a import b` imports the module a.b where there is one, else a
                module = f"{node.module}.{alias.name}"
                yield from [name for name in (module, node.module) if name in known][:1]


def check_marks() -> Iterator[str]:
    """Yields tests that pytest passes over although their mark is asked for: tests/conftest.py reads no such file."""
    for mark, folders in WHOLLY.items():
        for path in (path for folder in folders for path in (ROOT / folder).rglob("test_*.py")):
            marks = re.search(r"^pytestmark = (\[[^\]]*\]|.*)", path.read_text(encoding="utf-8"), re.MULTILINE)
            if not marks or f"pytest.mark.{mark}" not in marks[0]:
                yield f"{_place(path)}: has no `pytestmark = pytest.mark.{mark}`, as each file of the folder must"
    for path in (ROOT / "tests").rglob("*.py"):
        if path.name.startswith("test_") or path == Path(__file__):
            continue
        if any(f"mark.{mark}" in path.read_text(encoding="utf-8") for mark in MARKS):
            yield f"{_place(path)}: a file that is no test gives a mark to tests"


def check_clocks() -> Iterator[str]:
    """Yields tests that replace the clock of the process: an event loop of another thread would sleep for hours."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"""setattr\(((\w+\.)?time, "|"time\.)""", line):
                yield f"{path.relative_to(ROOT)}:{number}: replace the name `time` in the module under test instead"


def check_files() -> Iterator[str]:
    """Yields files that name a path of some machine or a package registry, and files that are large."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in (ROOT / name for name in listed.split("\0") if name):
        if not path.is_file():
            continue
        if path.stat().st_size > LARGEST:
            yield f"{_place(path)}: is larger than {LARGEST:,} bytes"
        for number, line in enumerate(path.read_bytes().decode("utf-8", errors="replace").splitlines(), start=1):
            if match := FORBIDDEN.search(line):
                yield f"{_place(path, number)}: `{match.group()}`"


def _nodes(tree: ast.Module, kind: type[Node]) -> Iterator[Node]:
    return (node for node in ast.walk(tree) if isinstance(node, kind))


def _place(path: Path, line: int | None = None) -> str:
    return path.relative_to(ROOT).as_posix() + (f":{line}" if line else "")


def main() -> int:
    """Prints the findings of all checks. Returns 1 where there is one."""
    checks = (check_names, check_words, check_messages, check_imports, check_marks, check_clocks, check_files)
    found = [finding for check in checks for finding in check()]
    print("\n".join(found) if found else f"{len(TREES)} modules: nothing found")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
