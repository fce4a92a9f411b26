"""The options of a search, as `tasks/search_options.py` declares them."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import tyro

from pellucid.cli.options import flag, optional
from pellucid.tasks.option_fields import OptionText, read_options
from pellucid.tasks.search_options import SearchOptions

OPTIONS = {name: (kind, text) for name, (kind, text) in read_options(SearchOptions).items() if text.help}
"""The options of a search that are options of a command, each with its type in Python and its description."""
_PARAMETER = re.compile(r"`([a-z_]+)=`")


def describe(name: str) -> Any:
    """Returns the description of an option of a search, for the signature of a verb."""
    _, text = OPTIONS[name]
    help = _PARAMETER.sub(lambda found: f"--{found[1].replace('_', '-')}", text.help)
    return optional(text.metavar, help, text.default) if text.metavar else flag(help)


BeamSize = Annotated[int | None, describe("beam_size")]
LengthPenalty = Annotated[float | None, describe("length_penalty")]
Segment = Annotated[Literal["auto", "off"] | None, describe("segment")]
Temperature = Annotated[float | None, describe("temperature")]
TopK = Annotated[int | None, describe("top_k")]
TopP = Annotated[float | None, describe("top_p")]
EpsilonCutoff = Annotated[float | None, describe("epsilon_cutoff")]


def add_search_options(after: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Returns a decorator for a verb with `**search`, which gets all options of a search after its option `after`."""

    def add(command: Callable[..., int]) -> Callable[..., int]:
        signature = inspect.signature(command)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        place = [one.name for one in own].index(after) + 1
        options = [_make_parameter(name, *declared) for name, declared in OPTIONS.items()]
        command.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own[:place], *options, *own[place:]]
        )
        command.__annotations__ = {one.name: one.annotation for one in (*own, *options)} | {"return": int}
        return command

    return add


def _make_parameter(name: str, kind: Any, text: OptionText) -> inspect.Parameter:
    kind = text.kind or kind
    several = kind == tuple[str, ...]
    described = Annotated[(kind, describe(name), *([tyro.conf.UseAppendAction] if several else []))]
    default = () if several else False if kind is bool else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=described)


def make_search_options(given: Mapping[str, Any], **further: Any) -> SearchOptions:
    """Returns the record of the options that a command was given, and of `further` ones.

    Raises the errors of `SearchOptions`, and TypeError for an option that no command has.
    """
    if strange := given.keys() - OPTIONS.keys():
        raise TypeError(f"no option of a search: {', '.join(sorted(strange))}")
    return SearchOptions(**{name: value for name, value in given.items() if value not in (None, ())}, **further)
