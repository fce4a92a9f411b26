"""Reads the arguments of a verb by its function's signature, and reports errors in terms of its options.

Errors from below the command line name parameters, as in a Python call: rename_parameters() replaces them by the
options of the verb.
"""

import ast
import inspect
import io
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial, wraps
from itertools import dropwhile, takewhile
from operator import not_
from typing import Any, TextIO

import tyro

from pellucid.cli.options import RepeatedOption, SingleOption
from pellucid.errors import ConfigError, did_you_mean, format_value
from pellucid.terminal import columns, wrap_help, wrap_text

_FRAME = " │╭╮╰╯─"
_NUMBERS = {int: ("a whole number", "5"), float: ("a number", "0.5")}
"""The types of numbers, each with its name and an example."""
_PARAMETER = re.compile(r"`([a-z]\w*(?:\.[a-z]\w*)?)=([^`]*)`")
"""A parameter in a message, `out=` or `layer=3`; or a setting for which a verb has an option, `data.valid_src=`."""
OTHER_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "overrides": ("set",), "settings": ("set",), "source_language": ("src_lang",), "target_language": ("tgt_lang",),
    "prefixes": ("prefix",), "sources": ("src",), "targets": ("tgt",), "references": ("ref", "tgt"),
    "other": ("compare",),
}  # fmt: skip
"""The options of parameters that have another name on the command line; the first that a verb has is used."""
SWITCHES: Mapping[tuple[str, str], str] = {
    ("level", "tokens"): "tokens", ("special", "False"): "hide_special", ("sink", "False"): "hide_sink",
}  # fmt: skip
"""The switches that replace a parameter with a certain value: `level="tokens"` is `--tokens`."""


def read_arguments(verb: str, command: Callable[..., int], args: Sequence[str]) -> Callable[[], int]:
    """Returns the command with its arguments bound, ready to call. Raises ConfigError; SystemExit after `--help`."""
    prog = f"pellucid {verb}"
    _check_options(prog, command, args)
    _check_numbers(command, args)
    _check_named(command, args)
    _check_repeated(command, args)
    _check_given_once(command, args)

    @wraps(command)
    def fill(*values: Any, **options: Any) -> Callable[[], int]:
        return partial(command, *values, **options)

    complaint, shown_help = io.StringIO(), _Help(sys.stdout)
    try:
        with redirect_stderr(complaint), redirect_stdout(shown_help):
            return tyro.cli(
                fill,
                prog=prog,
                args=list(args),
                description="",
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except SystemExit as exit_:
        if exit_.code in (None, 0):
            # The parser would wrap the description as one paragraph, and does not wrap the usage line.
            usage, _, options = shown_help.getvalue().partition("\n")
            usage = wrap_text(usage, len("usage: ")) if len(usage) > columns() else usage
            print(f"{usage}\n\n{wrap_help(command.__doc__ or '')}\n\n{options.strip()}")
            raise
        raise ConfigError(_sentence(prog, complaint.getvalue()), f"{prog} --help lists all options") from None


def rename_parameters(message: str, command: Callable[..., int]) -> str:
    """Returns a message with parameters replaced by the verb's options: `out=` by `--out`, `layer=3` by `--layer 3`.

    A parameter without an option of the verb is left unchanged.
    """
    parameters = inspect.signature(command).parameters

    def spell(found: re.Match[str]) -> str:
        section, _, name = found[1].rpartition(".")
        value = found[2]
        if section and value:  # a setting, as --set takes it
            return found[0]
        value = _plain(value)
        if (switch := SWITCHES.get((name, value), "")) in parameters:
            return f"`{_option(switch)}`"
        known = [option for option in (name, f"{name}_", *OTHER_OPTIONS.get(name, ())) if option in parameters]
        if not known:
            return found[0]
        if parameters[known[0]].kind is inspect.Parameter.POSITIONAL_ONLY:
            return known[0].upper()
        return f"`{_option(known[0])}`" if value in ("", "True") else f"`{_option(known[0])} {value}`"

    return _PARAMETER.sub(spell, message)


def _plain(value: str) -> str:
    """Returns a value as written on the command line: a string without quotes, a list as words."""
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError):  # a word, or a value that was truncated for display
        return value
    if isinstance(read, list | tuple) and read and all(isinstance(each, str) for each in read):
        return " ".join(read)
    return read if isinstance(read, str) else value


class _Help(io.StringIO):
    """Captures the parser's output, with the colors and frames that the terminal supports."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._terminal = terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._terminal.encoding

    def isatty(self) -> bool:
        return self._terminal.isatty()


def _check_options(prog: str, command: Callable[..., int], args: Sequence[str]) -> None:
    """Raises ConfigError for an unknown option, with the option that it has the name of in another version or library,
    or else the nearest one.
    """
    from pellucid.config.tables import suggest_name

    parameters = inspect.signature(command).parameters
    known = ["--help", *(_option(p.name) for p in parameters.values() if p.kind is p.KEYWORD_ONLY)]
    for name in (arg.partition("=")[0] for arg in args if arg.startswith("--") and arg != "--"):
        if _option(name[2:]) not in known:
            other = suggest_name(name[2:], parameters)
            setting = "" if other else _suggest_setting(name[2:], parameters)
            nearest = f"; did you mean `{_option(other)}`?" if other else "" if setting else did_you_mean(name, known)
            raise ConfigError(f"{prog} has no option `{name}`{nearest}", setting or f"options: {', '.join(known)}")


def _suggest_setting(name: str, parameters: typing.Collection[str]) -> str:
    """Returns a hint to use --set if an unknown option has the name of a setting; otherwise an empty string."""
    if "set" not in parameters:
        return ""
    from pellucid.config import KEYS
    from pellucid.config.tables import split_override

    try:
        split_override(f"{name.replace('-', '_')}=VALUE", KEYS)
    except ConfigError as error:
        if error.hint.startswith("write `"):
            return f"it is a setting: {error.hint.replace('write `', 'write `--set ', 1)}"
    return ""


def _check_numbers(command: Callable[..., int], args: Sequence[str]) -> None:
    """Raises ConfigError for a word where an option takes a number."""
    hints = {_option(name): _number(hint) for name, hint in typing.get_type_hints(command).items()}
    for place, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        number = hints.get(_option(name[2:])) if name.startswith("--") else None
        if number is None or not (equals or place + 1 < len(args)):
            continue
        value = value if equals else args[place + 1]
        if value.startswith("--"):  # the next option: the parser reports the missing value
            continue
        try:
            number(value)
        except ValueError:
            kind, example = _NUMBERS[number]
            raise ConfigError(
                f"`{name} {format_value(value)}` is not {kind}", f"give {kind}, as in `{name} {example}`"
            ) from None


def _check_named(command: Callable[..., int], args: Sequence[str]) -> None:
    """Raises ConfigError if an option that takes several values has none, as with an empty shell variable."""
    parameters = inspect.signature(command).parameters.values()
    several = {_option(p.name) for p in parameters if p.kind is p.KEYWORD_ONLY and p.default == ()}
    for place, arg in enumerate(args):
        if (
            arg.startswith("--")
            and _option(arg[2:]) in several
            and (place + 1 == len(args) or args[place + 1].startswith("--"))
        ):
            raise ConfigError(f"`{arg}` has no value", "give at least one value, or leave the option out")


def _check_repeated(command: Callable[..., int], args: Sequence[str]) -> None:
    """Raises ConfigError for `--ref A B`; the hint shows both possible meanings of B: another reference or MODEL."""
    hints = typing.get_type_hints(command, include_extras=True)
    marks = {
        _option(name): mark for name, hint in hints.items() for mark in _marks(hint) if isinstance(mark, RepeatedOption)
    }
    for place, arg in enumerate(args):
        option, equals, value = arg.partition("=")
        following = place + (1 if equals else 2)
        if option not in marks or following >= len(args):
            continue
        value, word = value if equals else args[place + 1], args[following]
        if not word.startswith("--"):
            raise ConfigError(
                f"`{format_value(word)}` follows `{option} {format_value(value)}`, which takes one file",
                f"for another file, repeat the option: `{option} {format_value(value)} {option} {format_value(word)}`; "
                f"{marks[option].otherwise.format(word=format_value(word))}",
            )


def _check_given_once(command: Callable[..., int], args: Sequence[str]) -> None:
    """Raises ConfigError for an option that is given twice but takes one text, although other verbs take several."""
    hints = typing.get_type_hints(command, include_extras=True)
    single = {
        _option(name) for name, hint in hints.items() if any(isinstance(mark, SingleOption) for mark in _marks(hint))
    }
    given: dict[str, str] = {}
    for place, arg in enumerate(args):
        option, equals, value = arg.partition("=")
        if option not in single or not (equals or place + 1 < len(args)):
            continue
        value = value if equals else args[place + 1]
        if given.setdefault(option, value) != value:
            raise ConfigError(
                f"`{option}` takes one file, but is given twice: `{format_value(given[option])}` and "
                f"`{format_value(value)}`",
                "leave one of them out",
            )


def _marks(hint: Any) -> tuple[Any, ...]:
    """Returns the metadata of an annotated type."""
    return getattr(hint, "__metadata__", ())


def _number(hint: Any) -> type[int] | type[float] | None:
    """Returns the type of number that a parameter takes; None if it takes no number."""
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return next((member for member in members if member in _NUMBERS), None)


def _option(name: str) -> str:
    return f"--{name.rstrip('_').replace('_', '-')}"  # Python cannot name a parameter `from`, so it is `from_`


def _sentence(prog: str, box: str) -> str:
    """Returns the first paragraph of the parser's message box; without UTF-8, the lines of the box are hyphens."""
    lines = (line.strip(_FRAME) for line in box.splitlines()[1:])
    unruled = ("" if set(line) == {"-"} else line for line in lines)
    said = " ".join(takewhile(bool, dropwhile(not_, unruled))) or "the arguments cannot be read"
    if surplus := re.fullmatch(r"Unrecognized options: (.*)", said):
        return f"{prog} takes no argument `{surplus[1]}`"
    return said
