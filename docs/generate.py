"""Writes the reference pages: settings from the text below each field, verbs from their --help.

python docs/generate.py
"""

import ast
import inspect
import io
import os
import re
import sys
import types
import typing
import warnings
from collections.abc import Callable, Collection
from contextlib import redirect_stdout
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from pellucid.cli.main import VERBS
from pellucid.cli.main import main as run_command_line
from pellucid.config import PRESETS, SECTIONS, Recipe, SamplingConfig, shipped_recipes
from pellucid.config.tables import toml_line

REFERENCE = Path(__file__).parent / "reference"
WIDTH = 100
KINDS = {
    int: "whole number", float: "number", bool: "`true`, `false`", str: "string", types.NoneType: '`"none"`',
    tuple[str, ...]: "list of strings", tuple[int, ...]: "list of whole numbers", tuple[float, ...]: "list of numbers",
}  # fmt: skip

GENERATED = "<!-- Written by docs/generate.py: change the code, then run it again. -->"

CONFIGURATION = f"""{GENERATED}

# Configuration

A recipe is a TOML file with up to four sections. Every key has a default, so a recipe names only what differs. The
same keys go on the command line as `--set section.key=value` and win over the recipe's. In Python a section is a
dataclass with these fields. An unknown key is an error that names the nearest one. TOML has no word for "no value":
write `"none"` for what is `None` in Python.
"""

SAMPLING = """\
Options of `pellucid translate --sample` and of `Translator.sample`; no recipe holds them. Filters apply after the
temperature: first top-k, then top-p.
"""

COMMAND_LINE = f"""{GENERATED}

# Command line

`pellucid --help` lists the verbs, `pellucid VERB --help` shows what stands here. Data goes to standard output,
everything else to standard error. `--debug`, with any verb, shows the traceback of an error. The exit status is 0, 2
for a user's mistake, 1 for a failure, 130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP.
[Lines in, lines out](../concepts/streams.md) says what stands behind it.
"""


def configuration() -> str:
    """The page of all settings."""
    parts = [CONFIGURATION, "## Keys before the sections\n", *_table(Recipe, leave_out=SECTIONS)]
    for section, cls in SECTIONS.items():
        parts += [f"\n## `[{section}]`: {cls.__name__}\n", f"{inspect.getdoc(cls)}\n", *_table(cls)]
        if section == "model":
            parts += ["\n### Presets\n", *_presets()]
    parts += ["\n## Sampling: SamplingConfig\n", SAMPLING, *_table(SamplingConfig)]
    return "\n".join([*parts, "\n## Shipped recipes\n", *_recipes(), ""])


def command_line() -> str:
    """The page of all verbs."""
    parts = [COMMAND_LINE]
    for verb, summary in VERBS.items():
        parts.append(f"## {verb}\n\n{summary[0].upper()}{summary[1:]}.\n\n```text\n{help_of(verb)}\n```\n")
    return "\n".join(parts)


PAGES: dict[str, Callable[[], str]] = {"configuration.md": configuration, "command-line.md": command_line}


def attribute_docstrings(cls: type) -> dict[str, str]:
    """The string below each field of a class, which Python itself throws away: read from the source."""
    tree = ast.parse(inspect.getsource(sys.modules[cls.__module__]))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
    found = {}
    for node, below in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(below, ast.Expr):
            found[node.target.id] = inspect.cleandoc(ast.literal_eval(below.value))
    return found


def help_of(verb: str) -> str:
    """What `pellucid VERB --help` prints, without the frames that depend on the terminal."""
    with (
        patch.dict(os.environ, {"COLUMNS": str(WIDTH)}),
        warnings.catch_warnings(),
        redirect_stdout(io.StringIO()) as out,
    ):
        run_command_line([verb, "--help"])
    lines = [line.rstrip() for line in out.getvalue().splitlines() if not re.fullmatch(r" *-+ *", line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _table(cls: type, leave_out: Collection[str] = ()) -> list[str]:
    """A line a field: its name, what values it takes, its default, its text."""
    texts, hints = attribute_docstrings(cls), typing.get_type_hints(cls)
    rows = [
        f"| `{f.name}` | {_values(hints[f.name])} | `{_toml(f.default)}` | {_cell(texts[f.name])} |"
        for f in fields(cls)
        if f.name not in leave_out
    ]
    return ["| key | values | default | meaning |", "| --- | --- | --- | --- |", *rows]


def _presets() -> list[str]:
    """A line a preset, with the fields in which it differs from the defaults."""
    rows = [
        f"| `{name}` | {', '.join(f'`{toml_line(key, value)}`' for key, value in overrides.items())} |"
        for name, overrides in PRESETS.items()
    ]
    note = '`preset = "NAME"` in `[model]` starts from one; a recipe without that key starts from `tiny`.\n'
    return [note, "| preset | differs from the defaults in |", "| --- | --- |", *rows]


def _recipes() -> list[str]:
    """A line a recipe that comes with the package."""
    rows = [f"| `{name}` | {_cell(Recipe.load(name).description)} |" for name in shipped_recipes()]
    return ["`pellucid recipes NAME` prints one whole.\n", "| name | what it trains |", "| --- | --- |", *rows]


def _cell(text: str) -> str:
    """A text as a cell of a table, which is one line and has no rule in it."""
    return " ".join(text.split()).replace("|", "\\|")


def _values(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return ", ".join(f"`{_toml(choice)}`" for choice in typing.get_args(hint))
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return " or ".join(KINDS[member] for member in members)


def _toml(value: Any) -> str:
    return toml_line("key", value).removeprefix("key = ")


def main() -> int:
    """Writes the pages."""
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8", newline="\n")
        print(REFERENCE / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
