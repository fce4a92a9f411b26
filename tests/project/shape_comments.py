"""Shape comments that execute: `x = ...  # (B, T, D)` is a claim, and a traced run proves or refutes it.

`collect` reads the claims of a file, `check` runs some calls under `sys.settrace` and compares. A claim stands at the
end of an assignment or of a return and begins with its shapes: one for each target, or one for all of them.
The generic letters L and M are bound where they are first seen, and hold to the end of that function call.
"""

import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_TERM = r"(?:[A-Z]|\d+|\.\.\.)"
_SHAPE = re.compile(rf"\((?=[^)]*[A-Z]){_TERM}(?:\s*[-+*,]\s*{_TERM})*\s*,?\s*\)")
_LOOKS_LIKE_A_SHAPE = re.compile(r"\((?=[^)]*\b[A-Z]\b)(?:[A-Z]|\d+|\.\.\.)\s*(?:[-+*,][^()]*)?\)")
_LEADING_SHAPES = re.compile(rf"#\s*(?:{_SHAPE.pattern}(?:,\s*(?=\())?)+")
_GENERIC = {"G", "L", "M"}
_COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"}


@dataclass(frozen=True, eq=False)
class Claim:
    """One comment, with the statement that it stands on."""

    path: Path
    line: int
    first_line: int
    last_line: int
    names: tuple[str, ...]
    targets: tuple[CodeType, ...]
    """What to look up after an assignment; empty for a return."""
    shapes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line}: `{', '.join(self.names)}`  # {', '.join(self.shapes)}"


@dataclass(frozen=True)
class Run:
    """A call that reaches some claims, and the size of each letter in it. What `call` closes over is not traced."""

    name: str
    call: Callable[[], object]
    sizes: Mapping[str, int]


@dataclass
class Report:
    """What came out: claims that are wrong, claims that no run reached, comments that claim nothing checkable."""

    wrong: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """All of it, a line each."""
        return [
            *self.wrong,
            *(f"{claim}: no run reaches this line" for claim in self.unreached),
            *(
                f"{comment}: begin the comment of an assignment or a return with its shapes"
                for comment in self.misplaced
            ),
        ]


def check(paths: Sequence[Path], runs: Sequence[Run]) -> Report:
    """Runs all `runs` and compares what the comments of `paths` say with what was there."""
    report, claims = Report(), []
    for path in paths:
        found, misplaced = collect(path)
        claims += found
        report.misplaced += misplaced
    wrong: dict[Claim, str] = {}
    reached: set[Claim] = set()
    for run in runs:
        _trace(run, _by_line(claims), wrong, reached)
    report.wrong = [wrong[claim] for claim in claims if claim in wrong]
    report.unreached = [str(claim) for claim in claims if claim not in reached]
    return report


def collect(path: Path) -> tuple[list[Claim], list[str]]:
    """The claims of a file, and the end-of-line comments that show a shape but cannot be checked."""
    source = path.read_text(encoding="utf-8")
    statements = _simple_statements(ast.parse(source))
    claims, misplaced = [], []
    for line, comment in _end_of_line_comments(source):
        if not _LOOKS_LIKE_A_SHAPE.search(comment):
            continue
        claim = _claim(path, line, comment, statements.get(line))
        if claim is None:
            misplaced.append(f"{path.name}:{line}: `{comment}`")
        else:
            claims.append(claim)
    return claims, misplaced


def _end_of_line_comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip():
            yield token.start[0], token.string


def _simple_statements(tree: ast.Module) -> dict[int, ast.stmt]:
    """For each line that begins or ends a statement without a body, that statement."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            found[node.lineno] = found[node.end_lineno or node.lineno] = node
    return found


def _claim(path: Path, line: int, comment: str, statement: ast.stmt | None) -> Claim | None:
    leading = _LEADING_SHAPES.match(comment)
    targets = _targets(statement)
    if statement is None or leading is None or targets is None or _LOOKS_LIKE_A_SHAPE.search(comment[leading.end() :]):
        return None
    shapes = tuple(match.group() for match in _SHAPE.finditer(leading.group()))
    if len(shapes) not in (1, len(targets)) and targets:
        return None
    names = tuple(ast.unparse(target) for target in targets) or ("return",)
    last_line = statement.end_lineno or statement.lineno
    codes = tuple(compile(name, str(path), "eval") for name in names if targets)
    return Claim(path, line, statement.lineno, last_line, names, codes, shapes)


def _targets(statement: ast.stmt | None) -> list[ast.expr] | None:
    """What a statement assigns to, singly; an empty list for a return; None for what cannot carry a claim."""
    match statement:
        case ast.Return(value=ast.expr()):
            return []
        case ast.Assign(targets=[ast.Tuple(elts=elements)]) if not any(isinstance(e, ast.Starred) for e in elements):
            return elements
        case ast.Assign(targets=targets):
            return None if any(isinstance(target, ast.Tuple | ast.List) for target in targets) else targets
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target, value=ast.expr()):
            return [target]
    return None


_Lines = Mapping[str, Mapping[int, Claim]]


def _by_line(claims: Sequence[Claim]) -> _Lines:
    lines: dict[str, dict[int, Claim]] = {}
    for claim in claims:
        for line in range(claim.first_line, claim.last_line + 1):
            lines.setdefault(os.path.realpath(claim.path), {})[line] = claim
    return lines


def _trace(run: Run, lines: _Lines, wrong: dict[Claim, str], reached: set[Claim]) -> None:
    files: dict[str, Mapping[int, Claim] | None] = {}

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in files:
            files[name] = lines.get(os.path.realpath(name))
        claims = files[name]
        if not claims or frame.f_code.co_name in _COMPREHENSIONS:
            return None
        return _Call(run, claims, wrong, reached).follow

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run.call()
    finally:
        sys.settrace(before)


class _Call:
    """One function call: the statement under way, and the letters bound so far."""

    def __init__(self, run: Run, claims: Mapping[int, Claim], wrong: dict[Claim, str], reached: set[Claim]) -> None:
        self.run, self.claims, self.wrong, self.reached = run, claims, wrong, reached
        self.sizes = dict(run.sizes)
        self.pending: Claim | None = None
        self.returned: Claim | None = None

    def follow(self, frame: FrameType, event: str, argument: Any) -> Any:
        """The local trace function: a claim is checked when its statement has been left."""
        if event == "exception":
            self.pending = self.returned = None  # the statement did not finish
        elif event == "line":
            claim = self.claims.get(frame.f_lineno)
            if claim is not self.pending:
                self.leave(frame)
            self.pending = claim
        elif event == "return":
            self.leave(frame)
            if self.returned is not None:
                self.compare(self.returned, list(argument) if isinstance(argument, tuple) else [argument])
        return self.follow

    def leave(self, frame: FrameType) -> None:
        """Compares what the statement just finished has assigned; what it returns is seen at the end of the call."""
        claim, self.pending = self.pending, None
        if claim is None:
            return
        if claim.targets:
            self.compare(claim, [eval(code, frame.f_globals, frame.f_locals) for code in claim.targets])
        else:
            self.returned = claim

    def compare(self, claim: Claim, values: list[Any]) -> None:
        """Notes the claim as reached, and as wrong where a shape differs."""
        shapes = claim.shapes * len(values) if len(claim.shapes) == 1 else claim.shapes
        if len(shapes) != len(values):
            self.refute(claim, f"{len(values)} values for {len(shapes)} shapes")
        names = claim.names if len(claim.names) == len(values) else claim.names * len(values)
        for name, value, shape in zip(names, values, shapes, strict=False):
            if value is None:
                continue  # an optional tensor that is absent proves nothing
            self.reached.add(claim)
            if not hasattr(value, "shape"):
                self.refute(claim, f"`{name}` is a {type(value).__name__}, not a tensor")
            elif mismatch := _mismatch(tuple(value.shape), shape, self.sizes):
                self.refute(claim, f"`{name}` is {tuple(value.shape)}, but {mismatch}")

    def refute(self, claim: Claim, reason: str) -> None:
        """Keeps the first reason against a claim."""
        self.reached.add(claim)
        self.wrong.setdefault(claim, f"{claim}: {reason} (run {self.run.name})")


def _mismatch(actual: tuple[int, ...], shape: str, sizes: dict[str, int]) -> str:
    """Why `actual` is not `shape`, or an empty string; binds the letters that have no size yet."""
    expression = ast.parse(shape, mode="eval").body
    terms = expression.elts if isinstance(expression, ast.Tuple) else [expression]
    if isinstance(terms[0], ast.Constant) and terms[0].value is ...:
        terms = terms[1:]
        actual = actual[len(actual) - len(terms) :] if len(actual) >= len(terms) else actual
    if len(actual) != len(terms):
        return f"{shape} has {len(terms)} dimensions"
    for size, term in zip(actual, terms, strict=True):
        if isinstance(term, ast.Name) and term.id in _GENERIC:
            sizes.setdefault(term.id, size)
    try:
        expected = tuple(_evaluate(term, sizes) for term in terms)
    except NameError as error:
        return f"`{error.name}` has no size here"
    return "" if expected == actual else f"{shape} is {expected}"


def _evaluate(term: ast.expr, sizes: Mapping[str, int]) -> int:
    return int(eval(compile(ast.Expression(term), "shape", "eval"), {"__builtins__": {}}, sizes))
