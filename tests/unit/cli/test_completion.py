"""Shell completion: the script of bash, sourced and asked as readline asks it; those of others by what they hold."""

import subprocess
from pathlib import Path

import pytest

from pellucid.cli.commands import VERBS, load_command
from pellucid.cli.completion import SHELLS, places, script
from pellucid.config import list_shipped_recipes
from pellucid.views import OF_TRACES
from tests.unit.cli.command_line import CommandLine

ASK = """\
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { echo "compopt $*" >&2; }
_pellucid
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""What readline does at a Tab: the words so far, of which the last is the one to complete."""


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "pellucid.bash"
    path.write_text(script("bash"), encoding="utf-8")
    return path


def complete(path: Path, *words: str) -> tuple[list[str], str]:
    """What bash offers for the last of the words, and how readline is told to treat it."""
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", str(path), "pellucid", *words], capture_output=True, text=True, check=True
    )
    return done.stdout.split(), done.stderr


def test_verbs_are_completed(bash_script: Path) -> None:
    assert complete(bash_script, "tra") == (["train", "translate"], "")
    assert complete(bash_script, "")[0] == [*VERBS, "--help", "--version", "--completion"]
    assert complete(bash_script, "--completion", "")[0] == list(SHELLS)


def test_the_options_of_a_verb_are_completed(bash_script: Path) -> None:
    assert complete(bash_script, "train", "--bud")[0] == ["--budget"]
    assert complete(bash_script, "convert", "out", "--fr")[0] == ["--from"]
    assert complete(bash_script, "train", "--quantization")[0] == [], "an option of another verb"
    assert set(complete(bash_script, "align", "--")[0]) >= {"--src", "--gold-one-based", "--output", "--help"}


def test_what_an_option_takes_is_completed(bash_script: Path) -> None:
    assert complete(bash_script, "inspect", "run", "--view", "")[0] == list(OF_TRACES)
    assert complete(bash_script, "inspect", "run", "--view", "ma")[0] == ["matrix"]
    assert complete(bash_script, "average", "run", "--strategy", "")[0] == ["last", "best"]
    assert complete(bash_script, "average", "run", "--strategy", "=", "b")[0] == ["best"], (
        "bash cuts at the equals sign"
    )
    assert complete(bash_script, "train", "mul")[0] == [
        name for name in list_shipped_recipes() if name.startswith("mul")
    ]
    assert complete(bash_script, "plot", "s")[0] == ["schedule", "smoothing"]


def test_settings_are_completed_up_to_their_value(bash_script: Path) -> None:
    words, told = complete(bash_script, "train", "--set", "train.learning")
    assert words == ["train.learning_rate="]
    assert told == "compopt -o nospace\n"


def test_files_are_left_to_readline_and_numbers_to_the_user(bash_script: Path) -> None:
    assert complete(bash_script, "train", "--src", "") == ([], "")
    assert complete(bash_script, "inspect", "run", "--layer", "") == ([], "compopt +o default\n")
    assert "complete -o default -F _pellucid pellucid" in bash_script.read_text(encoding="utf-8")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_is_told_every_verb_and_option(pellucid: CommandLine, shell: str) -> None:
    shown = pellucid("--completion", shell)
    assert (shown.status, shown.err, shown.out) == (0, "", script(shell))
    for verb in VERBS:
        for name in (name for place in places(load_command(verb)) for name in place.names if name.startswith("--")):
            spelled = f"-l {name[2:]} " if shell == "fish" else name
            assert spelled in shown.out, (verb, name)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_help_text_cannot_end_its_quotes(shell: str) -> None:
    for line in script(shell).splitlines():
        if not line.startswith("#"):
            assert line.count("'") % 2 == 0, line


def test_another_shell_is_a_mistake(pellucid: CommandLine) -> None:
    outcome = pellucid("--completion", "fsh")
    assert (outcome.status, outcome.error) == (2, "there is no completion for `fsh`; did you mean `fish`?")
    assert outcome.hint == "choose bash, zsh, fish"
    assert pellucid("--completion").status == 2
