"""Writes the script by which a shell completes `pellucid`: `eval "$(pellucid --completion bash)"` in ~/.bashrc.

The script contains all verbs, options and words, so that a Tab does not start Python. The allowed values of an option
are read from the verb's signature: a Literal, Choices, or the metavar of a file.
"""

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pellucid.cli.commands import VERBS, load_command
from pellucid.cli.options import Choices
from pellucid.errors import ConfigError, did_you_mean, format_value

SHELLS = ("bash", "zsh", "fish")
FILES = ("FILE", "FOLDER", "MODEL", "RUN", "SRC", "DST", "OUT")
"""The metavars of files and folders."""


@dataclass(frozen=True)
class Place:
    """Describes an option or an argument of a verb, with the values that it takes."""

    names: tuple[str, ...]
    """The option as written, with its short form; empty for a positional argument."""
    metavar: str
    help: str
    takes: Literal["nothing", "a word", "a file", "anything"]
    words: tuple[str, ...] = ()
    """The words from which a value is completed."""


def script(shell: str) -> str:
    """Returns the script for a shell. Raises ConfigError for an unknown shell."""
    writers: dict[str, Callable[[dict[str, list[Place]]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    if shell not in writers:
        raise ConfigError(
            f"there is no completion for `{format_value(shell)}`{did_you_mean(shell, SHELLS)}",
            f"choose {', '.join(SHELLS)}",
        )
    return writers[shell]({verb: places(load_command(verb)) for verb in VERBS})


def places(command: Callable[..., int]) -> list[Place]:
    """Returns the arguments of a verb in their order, then its options."""
    hints = typing.get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters.values()
    return [_place(p, hints[p.name]) for p in parameters] + [Place(("--help",), "", "show the options", "nothing")]


def _place(parameter: inspect.Parameter, hint: Any) -> Place:
    plain, *described = typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else (hint,)
    members = typing.get_args(plain) if typing.get_origin(plain) in (types.UnionType, typing.Union) else (plain,)
    literals = [
        choice for member in members for choice in typing.get_args(member) if typing.get_origin(member) is Literal
    ]
    choices = [word for each in described if isinstance(each, Choices) for word in each.words()]
    settings = [each for each in described if hasattr(each, "metavar")]
    metavar = next((each.metavar for each in settings if each.metavar), "").strip("[]").split(" ")[0]
    help_ = next((str(each.help) for each in settings if each.help), "")
    aliases = tuple(alias for each in settings for alias in each.aliases or ())
    named = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    names = (f"--{parameter.name.rstrip('_').replace('_', '-')}", *aliases) if named else ()
    if plain is bool:
        return Place(names, "", help_, "nothing")
    if words := (*literals, *choices):
        return Place(names, metavar, help_, "a word", words)
    return Place(names, metavar, help_, "a file" if metavar in FILES else "anything")


def _bash(verbs: dict[str, list[Place]]) -> str:
    cases = []
    for verb, found in verbs.items():
        options = [place for place in found if place.names]
        arguments = [word for place in found if not place.names for word in place.words]
        lines = [f"options={_quote(' '.join(name for place in options for name in place.names))}"]
        lines += [f"words={_quote(' '.join(arguments))}"] if arguments else []
        values = [
            f"{'|'.join(place.names)}) options= words={_quote(' '.join(place.words))} ;;"
            for place in options
            if place.takes == "a word"
        ]
        for takes, then in (("a file", "return"), ("anything", "compopt +o default; return")):
            if names := [name for place in options if place.takes == takes for name in place.names]:
                values.append(f"{'|'.join(names)}) {then} ;;")
        lines += ["case $before in", *(f"    {value}" for value in values), "esac"] if values else []
        cases += [f"{verb})", *(f"    {line}" for line in lines), "    ;;"]
    return BASH.format(first=" ".join([*verbs, *FIRST]), shells=" ".join(SHELLS), cases=_indent(cases, 8))


FIRST = ("--help", "--version", "--completion")
BASH = """\
# Completes verbs, options and values of pellucid. In ~/.bashrc: eval "$(pellucid --completion bash)"
_pellucid() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} options= words=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "{first}" -- "$word"))
        return
    fi
    # Bash splits --option=value: the equals sign is a separate word.
    if [[ $word == = ]]; then
        word=
    elif [[ $before == = ]]; then
        before=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    case ${{COMP_WORDS[1]}} in
        --completion) words="{shells}" ;;
{cases}
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    else
        COMPREPLY=($(compgen -W "$words" -- "$word"))
        if [[ ${{COMPREPLY[0]}} == *= ]]; then compopt -o nospace; fi
    fi
}}
complete -o default -F _pellucid pellucid
"""


def _zsh(verbs: dict[str, list[Place]]) -> str:
    cases = []
    for verb, found in verbs.items():
        specs = []
        for place in found:
            action = {"a word": f"({' '.join(place.words)})", "a file": "_files"}.get(place.takes, " ")
            meaning = f":{_plain(place.metavar or 'value')}:{action}" if place.takes != "nothing" else ""
            if not place.names:
                specs.append(f"'*{meaning}'" if place is _last_argument(found) else f"'{meaning}'")
            specs += [f"'*{name}[{_plain(place.help)}]{meaning}'" for name in place.names]
        cases += [f"{verb})", "    _arguments \\", *(f"        {spec} \\" for spec in specs[:-1])]
        cases += [f"        {specs[-1]}", "    ;;"]
    described = "\n".join(f"        '{verb}:{_plain(VERBS[verb])}'" for verb in verbs)
    return ZSH.format(verbs=described, first=" ".join(FIRST), shells=" ".join(SHELLS), cases=_indent(cases, 8))


ZSH = """\
#compdef pellucid
# Completes verbs, options and values of pellucid. In ~/.zshrc, below compinit: eval "$(pellucid --completion zsh)"
_pellucid() {{
    local -a verbs=(
{verbs}
    )
    if ((CURRENT == 2)); then
        _describe verb verbs
        compadd -- {first}
        return
    fi
    shift words
    ((CURRENT--))
    case $words[1] in
        --completion) compadd -- {shells} ;;
{cases}
    esac
}}
compdef _pellucid pellucid
"""


def _fish(verbs: dict[str, list[Place]]) -> str:
    lines = ["# Completes verbs, options and values of pellucid. In config.fish: pellucid --completion fish | source"]
    lines += [f"complete -c pellucid -f -n __fish_use_subcommand -l {name.lstrip('-')}" for name in FIRST[:2]]
    lines.append(f"complete -c pellucid -n __fish_use_subcommand -l completion -x -a '{' '.join(SHELLS)}'")
    for verb, found in verbs.items():
        lines.append(f"complete -c pellucid -f -n __fish_use_subcommand -a {verb} -d '{_plain(VERBS[verb])}'")
        here = f"complete -c pellucid -n '__fish_seen_subcommand_from {verb}'"
        for place in found:
            long = "".join(f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in place.names)
            takes = {
                "nothing": "", "a file": " -r -F" if long else " -F", "anything": " -x" if long else " -f",
                "a word": f" {'-x ' if long else ''}-a '{' '.join(place.words)}'",
            }[place.takes]  # fmt: skip
            lines.append(f"{here}{long}{takes} -d '{_plain(place.help)}'")
    return "\n".join(lines) + "\n"


def _last_argument(found: Sequence[Place]) -> Place | None:
    arguments = [place for place in found if not place.names]
    return arguments[-1] if arguments else None


def _indent(lines: Sequence[str], by: int) -> str:
    return "\n".join(f"{' ' * by}{line}" for line in lines)


def _quote(words: str) -> str:
    return f'"{words}"'


def _plain(text: str) -> str:
    """Returns a text without the characters that are special within the quotes of a completion."""
    return "".join(" " if c in "[]:'\\\n" else c for c in text).strip()
