"""The commands that the documentation shows can be given: verb, arguments and options are those of the command line."""

import re
import shlex
from collections.abc import Callable, Iterator
from inspect import signature

import pytest

from pellucid.cli.arguments import read_arguments
from pellucid.cli.commands import VERBS, load_command
from pellucid.cli.main import USAGE
from pellucid.errors import ConfigError, PellucidError
from tests.docs.pages import CURRENT, ROOT, Page

OF_ALL_VERBS = {"--help", "--version", "--debug", "--completion"}
ANY_VERB = "VERB"


def commands(shell: str) -> Iterator[list[str]]:
    """The words of each simple command of some lines of shell, without redirections and assignments."""
    for line in shell.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for token in [*lexer, ";"]:
            if token and set(token) <= set("|&;"):
                command = [word for word in _without_redirections(words) if not re.match(r"[A-Z_]+=", word)]
                if command:
                    yield command
                words = []
            else:
                words.append(token)


def _without_redirections(words: list[str]) -> list[str]:
    kept = list(words)
    while marks := [i for i, word in enumerate(kept) if word in ("<", ">", ">>")]:
        del kept[marks[0] : marks[0] + 2]
    return kept


def read(command: list[str]) -> None:
    """Reads the arguments of `pellucid ...` without running it. Raises where it could not be run."""
    verb, arguments = command[1], command[2:]
    if verb in {*OF_ALL_VERBS, ANY_VERB}:
        return
    assert verb in VERBS, f"no verb `{verb}`"
    read_arguments(verb, function(verb), arguments)


def function(verb: str) -> Callable[..., int]:
    """What runs a verb."""
    return load_command(verb)


def shown() -> list[tuple[str, list[str]]]:
    """Each `pellucid ...` in a fence of the documentation, and in the examples of the verbs' help."""
    fenced = [(str(page), command) for page in CURRENT for code in page.fences("sh") for command in commands(code)]
    helps = {verb: str(function(verb).__doc__) for verb in VERBS} | {"": USAGE}
    examples = [
        (f"{verb} --help", command)
        for verb, text in helps.items()
        for example in re.findall(r"example: (.+)", text)
        for command in commands(example)
    ]
    return [(origin, command) for origin, command in fenced + examples if command[0] == "pellucid"]


SHOWN = shown()


@pytest.mark.slow
def test_each_command_can_be_read() -> None:
    refused = []
    for origin, command in SHOWN:
        try:
            read(command)
        except (PellucidError, AssertionError) as error:
            refused.append(f"{origin}: {' '.join(command)}: {error}")
    assert refused == []


def test_each_verb_is_shown() -> None:
    assert {command[1] for _, command in SHOWN} >= set(VERBS)
    in_readme = {command[1] for origin, command in SHOWN if origin == "README.md"}
    assert {"demo", "train", "translate", "score", "evaluate"} <= in_readme


@pytest.mark.parametrize("page", CURRENT, ids=str)
def test_commands_in_passing(page: Page) -> None:
    """`pellucid train` within a sentence: the verb and the options that it names are there."""
    for code in page.inline_code:
        if not code.startswith("pellucid "):
            continue
        verb, *words = next(commands(code))[1:]
        assert verb in {*VERBS, *OF_ALL_VERBS, ANY_VERB}, code
        options = {word for word in words if word.startswith("--")} - OF_ALL_VERBS
        if options:
            assert {option[2:].replace("-", "_") for option in options} <= set(signature(function(verb)).parameters), (
                code
            )


def test_each_make_target_is_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    used = {
        word
        for page in CURRENT
        for code in page.fences("sh")
        for command in commands(code)
        if command[0] == "make"
        for word in command[1:]
    }
    assert used
    assert used <= targets


def test_each_folder_of_tests_that_the_makefile_names_is_there() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    named = [name for names in re.findall(r"\$\(addprefix tests/,([^)]*)\)", text) for name in names.split()]
    assert len(named) > 10
    assert [name for name in named if not (ROOT / "tests" / name).is_dir()] == []


def test_shell_is_taken_apart() -> None:
    code = 'A=1 pellucid train x --out run --set a.b=c   # a remark\necho "a | b" | pellucid translate run < in > out\n'
    assert list(commands(code)) == [
        ["pellucid", "train", "x", "--out", "run", "--set", "a.b=c"],
        ["echo", "a | b"],
        ["pellucid", "translate", "run"],
    ]


@pytest.mark.parametrize("command", ["pellucid train --outt run", "pellucid score run", "pellucid translate"])
def test_a_command_that_cannot_be_given_is_found(command: str) -> None:
    with pytest.raises(ConfigError):
        read(command.split())
