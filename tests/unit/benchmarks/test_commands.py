"""The commands of the benchmarks, as the documentation and the scripts themselves quote them."""

import argparse
import re
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from tests.docs.pages import CURRENT
from tests.docs.test_commands import commands
from tests.unit.benchmarks.conftest import SCRIPTS
from tests.unit.benchmarks.test_each_script import MAINS, parser_of

pytestmark = pytest.mark.slow

BEGINNING = "benchmarks/"


def quoted() -> Iterator[tuple[str, list[str], bool]]:
    """Where a command stands, the script with its arguments, and whether it is all there or named in passing."""
    for page in CURRENT:
        for code in page.fences("sh"):
            yield from ((str(page), command[1:], True) for command in commands(code) if command[0] == "python")
        for code in re.findall(r"`python (benchmarks/[^`]+)`", page.prose):
            yield str(page), code.split(), False
    for name in MAINS:
        text = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8").split('"""')[1]
        for code in re.findall(r"^    python (benchmarks/.+?)(?: > .*|   .*|)$", text, re.MULTILINE):
            yield f"{name}.py", re.sub(r"[\[\]]", "", code).split(), True


QUOTED = [found for found in quoted() if found[1][0].startswith(BEGINNING)]


def test_each_quoted_command_can_be_given(script: Callable[[str], ModuleType]) -> None:
    refused = []
    for origin, command, whole in QUOTED:
        try:
            read(command, whole, script)
        except (argparse.ArgumentError, AssertionError) as error:
            refused.append(f"{origin}: {' '.join(command)}: {error}")
    assert refused == []


def read(command: list[str], whole: bool, script: Callable[[str], ModuleType]) -> None:
    """Reads the arguments as the script would. Raises where it could not be run, or is not there."""
    name = command[0].removeprefix(BEGINNING).removesuffix(".py")
    assert name in MAINS, f"no script `{command[0]}`"
    parser = parser_of(script(name))
    parser.exit_on_error = False
    for action in parser._actions:
        action.required = action.required and whole
    try:
        _, rest = parser.parse_known_args(command[1:])
    except SystemExit:  # of a word that is not one of those allowed, or of an argument that is missing
        raise argparse.ArgumentError(None, f"`{' '.join(command)}` cannot be given") from None
    assert rest == [], f"{name}.py knows no {rest}"


def test_commands_are_found_wherever_they_are_quoted() -> None:
    assert len(QUOTED) > 60
    assert {command[0] for _, command, _ in QUOTED} == {f"{BEGINNING}{name}.py" for name in MAINS}
    origins = {origin for origin, _, _ in QUOTED}
    assert {"benchmarks/README.md", "README.md", "README.ko.md", "docs/guides/reading-a-score.md"} <= origins


@pytest.mark.parametrize(
    "command",
    ["loss.py --round", "loss.py --tries 3", "losses.py", "loss.py --rounds 0", "multi_bleu.py --hyp a --ref b"],
)
def test_a_command_that_cannot_be_given_is_found(command: str, script: Callable[[str], ModuleType]) -> None:
    with pytest.raises((argparse.ArgumentError, AssertionError)):
        read(f"{BEGINNING}{command}".split(), True, script)


def test_the_table_of_the_benchmarks_has_a_row_a_script() -> None:
    page = next(page for page in CURRENT if str(page) == "benchmarks/README.md")
    rows = [row[0].strip("`").removesuffix(".py") for row in page.table_rows[2:]]
    assert sorted(rows) == MAINS
