"""Fields of a record of options: each declares its description in Python and its option of the command line.

A method that takes the options by name has the signature and the docstring of the record; a verb has its options.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from pellucid.errors import did_you_mean

Method = TypeVar("Method", bound=Callable[..., Any])
_INDENT, _WIDTH = 12, 120
_OPTIONS = re.compile(rf"^ {{{_INDENT}}}options: .*$", re.MULTILINE)


@dataclass(frozen=True)
class OptionText:
    """The description of an option. A text names other options as parameters, `` `sample=` ``."""

    description: str
    """The description for Python."""
    metavar: str = ""
    """The placeholder of the value on the command line; empty for a switch."""
    help: str = ""
    """The help of the command line; empty: the verb declares the option itself, or has none."""
    default: str = "from the model"
    """The default, as the command line describes it."""
    kind: Any = None
    """The type on the command line; None: the type of the field."""
    is_setting: bool = False
    """True if the option replaces the model's setting of the same name, unless it is None."""


def option(
    description: str,
    metavar: str = "",
    help: str = "",
    default: str = "from the model",
    *,
    kind: Any = None,
    is_setting: bool = False,
    value: Any = None,
) -> Any:
    """Returns a field with the default `value`; `OptionText` describes the other arguments."""
    text = OptionText(description, metavar, help, default, kind, is_setting)
    return field(default=value, metadata={"option": text})


def read_options(record: type) -> dict[str, tuple[Any, OptionText]]:
    """Returns the type and the description of each option of a record."""
    found = {one.name: (one.type, one.metadata.get("option")) for one in fields(record)}
    return {name: (kind, text) for name, (kind, text) in found.items() if text is not None}


def describe_options(record: type, names: type) -> Callable[[Method], Method]:
    """Returns a decorator for a method with `**options`: `help()` shows the options as named parameters.

    They have the types, the defaults and the descriptions of the record; the latter replace the line `options: ...` of
    the docstring. Editors and type checkers read `Unpack[names]`.

    Args:
        record: a dataclass, whose fields `option` made.
        names: a TypedDict with the options that the method takes.
    """
    taken = names.__annotations__
    of_record = {one.name: one for one in fields(record) if one.name in taken}

    def describe(method: Method) -> Method:
        signature = inspect.signature(method)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        own += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
            for name, one in of_record.items()
            if name not in signature.parameters
        ]
        method.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        lines = "\n".join(
            textwrap.fill(
                f"{name}: {one.metadata['option'].description}", _WIDTH, initial_indent=" " * _INDENT,
                subsequent_indent=" " * (_INDENT + 4), break_on_hyphens=False,
            )
            for name, one in of_record.items()
            if "option" in one.metadata
        )  # fmt: skip
        method.__doc__ = _OPTIONS.sub(lambda _: lines, method.__doc__ or "")
        return method

    return describe


def check_names(call: str, options: Mapping[str, Any], names: type) -> None:
    """Raises TypeError, as Python does, for an option that `names`, a TypedDict, lacks."""
    known: Collection[str] = names.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}{did_you_mean(name, known)}")
