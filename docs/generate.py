"""Writes the reference: settings from the text below each field, verbs from their --help, errors from their classes.

python docs/generate.py
"""

import inspect
import io
import json
import os
import re
import sys
import types
import typing
import warnings
from collections.abc import Callable, Collection
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import pellucid.errors
from pellucid.cli.commands import VERBS
from pellucid.cli.main import main as run_command_line
from pellucid.config import PRESETS, SECTIONS, ModelConfig, Recipe, SamplingConfig, list_shipped_recipes
from pellucid.config.schema import attribute_docstrings, recipe_schema
from pellucid.config.tables import toml_line
from pellucid.errors import PellucidError

REFERENCE = Path(__file__).parent / "reference"
WIDTH = 100
KINDS = {
    int: "whole number", float: "number", bool: "`true`, `false`", str: "string", types.NoneType: '`"none"`',
    tuple[str, ...]: "list of strings", tuple[int, ...]: "list of whole numbers", tuple[float, ...]: "list of numbers",
    tuple[tuple[int, ...], ...]: "list of lists of whole numbers",
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

COMMAND_LINE = rf"""{GENERATED}

# Command line

`pellucid --help` lists the verbs, `pellucid VERB --help` prints the text of this page. Data goes to standard output,
everything else to standard error. `--debug`, with any verb, shows the traceback of an error. The exit status is 0, 2
for a user's mistake, 1 for a failure, 130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP.
[Input, output and exit status](../concepts/streams.md) has the details.

A shell completes verbs, options and their values if its start-up file has this line:

| shell | file | line |
| --- | --- | --- |
| bash | `~/.bashrc` | `eval "$(pellucid --completion bash)"` |
| zsh | `~/.zshrc`, below `compinit` | `eval "$(pellucid --completion zsh)"` |
| fish | `~/.config/fish/config.fish` | `pellucid --completion fish \| source` |
"""

ERRORS = f"""{GENERATED}

# Errors

A user error has a message (what is wrong, the values, the allowed ones) and a hint with the remedy. The command line
prints both on standard error, without a traceback, and exits; `--debug` shows the traceback.

```text
{{example}}
```

In Python it is an exception of one of these classes, all of them in `pellucid` and in `pellucid.errors`. The message is
`str(error)`, the hint `error.hint`. They name parameters of Python, `` `out=` ``, `` `fresh=True` ``; on the command
line these are replaced by options, `` `--out` ``, `` `--fresh` ``.

| class | exit status | raised for |
| --- | --- | --- |
{{classes}}

A full disk is a failure, exit status 1, for every class. Untrusted values are escaped in messages, and truncated to 80
characters, paths to 240.

An internal error of Pellucid ends with exit status 1 and the name of the exception. After Ctrl-C the exit status is
130, after SIGTERM 143, after SIGHUP 129, after another stop signal 128 plus its number; a training has saved its state
by then, or reports that it could not, and in Python raises `pellucid.TrainingInterrupted`, which is no `PellucidError`.
[When training goes wrong](../guides/when-training-goes-wrong.md) lists the errors of a training.

A warning does not end the command. It goes to standard error as `warning: ...`, in Python through `warnings`: for
instance if a line is translated in parts.
"""


def configuration() -> str:
    """Returns the page of all settings."""
    parts = [CONFIGURATION, "## Keys before the sections\n", *_table(Recipe, leave_out=SECTIONS)]
    for section, cls in SECTIONS.items():
        parts += [f"\n## `[{section}]`: {cls.__name__}\n", f"{inspect.getdoc(cls)}\n", *_table(cls)]
        if section == "model":
            parts += ["\n### Presets\n", *_presets()]
    parts += ["\n## Sampling: SamplingConfig\n", SAMPLING, *_table(SamplingConfig)]
    return "\n".join([*parts, "\n## Shipped recipes\n", *_recipes(), ""])


def command_line() -> str:
    """Returns the page of all verbs."""
    parts = [COMMAND_LINE]
    for verb, summary in VERBS.items():
        parts.append(f"## {verb}\n\n{summary[0].upper()}{summary[1:]}.\n\n```text\n{help_of(verb)}\n```\n")
    return "\n".join(parts)


def errors() -> str:
    """Returns the page of all errors."""
    named = vars(pellucid.errors).values()
    classes = [cls for cls in named if isinstance(cls, type) and issubclass(cls, PellucidError)]
    rows = [f"| `{cls.__name__}` | {cls.exit_status} | {_raised_for(cls)} |" for cls in classes]
    try:
        ModelConfig(d_model=500, num_heads=8)
    except PellucidError as error:
        example = f"error: {error}\n\nhint: {error.hint}"
    return ERRORS.format(example=example, classes="\n".join(rows))


def _raised_for(cls: type) -> str:
    """Returns the first sentence of an error's docstring as a cell."""
    first = (inspect.getdoc(cls) or "").partition("\n\n")[0]
    return _cell(first.removeprefix("Is raised for ").removeprefix("Is ").removesuffix("."))


def schema() -> str:
    """Returns the JSON Schema of a recipe."""
    return json.dumps(recipe_schema(), indent=2, ensure_ascii=False) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration,
    "command-line.md": command_line,
    "errors.md": errors,
    "recipe.schema.json": schema,
}


def help_of(verb: str) -> str:
    """Returns what `pellucid VERB --help` prints, without the frames that depend on the terminal."""
    with (
        patch.dict(os.environ, {"COLUMNS": str(WIDTH)}),
        warnings.catch_warnings(),
        redirect_stdout(io.StringIO()) as out,
    ):
        run_command_line([verb, "--help"])
    lines = [line.rstrip() for line in out.getvalue().splitlines() if not re.fullmatch(r" *-+ *", line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _table(cls: type, leave_out: Collection[str] = ()) -> list[str]:
    """Returns a line a field: its name, what values it takes, its default, its text."""
    texts, hints = attribute_docstrings(cls), typing.get_type_hints(cls)
    rows = [
        f"| `{f.name}` | {_values(hints[f.name])} | `{_toml(f.default)}` | {_cell(texts[f.name])} |"
        for f in fields(cls)
        if f.name not in leave_out
    ]
    return ["| key | values | default | meaning |", "| --- | --- | --- | --- |", *rows]


def _presets() -> list[str]:
    """Returns a line a preset, with the fields in which it differs from the defaults."""
    rows = [
        f"| `{name}` | {', '.join(f'`{toml_line(key, value)}`' for key, value in overrides.items())} |"
        for name, overrides in PRESETS.items()
    ]
    note = '`preset = "NAME"` in `[model]` starts from one; a recipe without that key starts from `tiny`.\n'
    return [note, "| preset | differs from the defaults in |", "| --- | --- |", *rows]


def _recipes() -> list[str]:
    """Returns a line a recipe that comes with the package."""
    rows = [f"| `{name}` | {_cell(Recipe.load(name).description)} |" for name in list_shipped_recipes()]
    return ["`pellucid recipes NAME` prints one whole.\n", "| name | what it trains |", "| --- | --- |", *rows]


def _cell(text: str) -> str:
    """Returns a text as a cell of a table, which is one line and has no rule in it."""
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
