"""The arguments of a verb: read from its function's signature, with what cannot be read said as an error and a hint."""

import inspect
import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from functools import partial, wraps
from itertools import dropwhile, takewhile
from operator import not_
from typing import Any

import tyro

from pellucid.errors import ConfigError, did_you_mean

_FRAME = " │╭╮╰╯─"


def read_arguments(verb: str, command: Callable[..., int], args: Sequence[str]) -> Callable[[], int]:
    """The command with its arguments filled in, to be called. Raises ConfigError; SystemExit after `--help`."""
    prog = f"pellucid {verb}"
    _check_options(prog, command, args)

    @wraps(command)
    def filled(*values: Any, **options: Any) -> Callable[[], int]:
        return partial(command, *values, **options)

    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint):
            return tyro.cli(
                filled, prog=prog, args=list(args), description=command.__doc__, config=(tyro.conf.FlagCreatePairsOff,)
            )
    except SystemExit as exit_:
        if exit_.code in (None, 0):
            raise
        raise ConfigError(_sentence(complaint.getvalue()), f"{prog} --help lists all options") from None


def _check_options(prog: str, command: Callable[..., int], args: Sequence[str]) -> None:
    parameters = inspect.signature(command).parameters.values()
    known = ["--help", *(_option(p.name) for p in parameters if p.kind is p.KEYWORD_ONLY)]
    for name in (arg.partition("=")[0] for arg in args if arg.startswith("--") and arg != "--"):
        if _option(name[2:]) not in known:
            raise ConfigError(
                f"{prog} has no option `{name}`{did_you_mean(name, known)}", f"options: {', '.join(known)}"
            )


def _option(name: str) -> str:
    return f"--{name.rstrip('_').replace('_', '-')}"  # `from_` is what Python makes of `from`


def _sentence(box: str) -> str:
    """The first paragraph of the box that the parser draws; without UTF-8, its rules are hyphens."""
    lines = (line.strip(_FRAME) for line in box.splitlines()[1:])
    unruled = ("" if set(line) == {"-"} else line for line in lines)
    return " ".join(takewhile(bool, dropwhile(not_, unruled))) or "the arguments cannot be read"
