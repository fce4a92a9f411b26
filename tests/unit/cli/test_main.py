"""The command line's frame: verbs, help, errors as sentences, exit statuses."""

import re
import signal
import sys
import warnings

import pytest

from pellucid.cli import main as module
from pellucid.cli.commands import GROUPS, VERBS
from pellucid.cli.main import main
from pellucid.errors import CheckpointError, ConfigError, PellucidError
from pellucid.training.interrupts import TrainingInterrupted
from tests.unit.cli.command_line import CommandLine, start


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has `pellucid recipes` raise what the test puts into `raised`."""
    monkeypatch.setattr(module, "_run", lambda verb, args: _raise())


raised: list[BaseException] = []


def _raise() -> int:
    raise raised.pop()


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help_with_an_example(pellucid: CommandLine, verb: str) -> None:
    for flag in ("--help", "-h"):
        shown = pellucid(verb, flag)
        assert (shown.status, shown.err) == (0, "")
        assert shown.out.startswith(f"usage: pellucid {verb} ")
        assert re.search(rf"^ *example: pellucid {verb}\b", shown.out, re.MULTILINE)


def test_help_lists_the_verbs_with_an_example(pellucid: CommandLine) -> None:
    for flag in ("--help", "-h"):
        shown = pellucid(flag)
        assert (shown.status, shown.err) == (0, "")
        assert "example: pellucid train" in shown.out
        parts = re.findall(r"^([a-z ]+):\n((?:  .*\n)+)", shown.out, re.MULTILINE)
        listed = {group: re.findall(r"^  ([\w-]+)  ", verbs, re.MULTILINE) for group, verbs in parts}
        assert listed == {group: [*verbs] for group, verbs in GROUPS.items()}
        assert [*listed] == ["start", "data", "train", "use", "look inside"]


def test_without_arguments_help_is_shown_as_a_mistake(pellucid: CommandLine) -> None:
    shown = pellucid()
    assert (shown.status, shown.out) == (2, pellucid("--help").out)


def test_the_version(pellucid: CommandLine) -> None:
    shown = pellucid("--version")
    assert shown.status == 0
    assert re.fullmatch(r"pellucid \d+\.\d+\S*\n", shown.out)


@pytest.mark.parametrize(
    ("verb", "error"),
    [
        ("trian", "unknown verb `trian`; did you mean `train`?"),
        ("Translate", "unknown verb `Translate`; did you mean `translate`?"),
        ("rerank", "unknown verb `rerank`; did you mean `fit-reranker`?"),
        ("xyzzy", "unknown verb `xyzzy`"),
        ("--out", "unknown verb `--out`"),
    ],
)
def test_an_unknown_verb_is_a_mistake(pellucid: CommandLine, verb: str, error: str) -> None:
    outcome = pellucid(verb, "--whatever")
    assert (outcome.status, outcome.error, outcome.out) == (2, error, "")
    assert outcome.hint == f"verbs: {', '.join(VERBS)}"


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (ConfigError("a", "b"), 2, "error: a\n\nhint: b\n"),
        (ConfigError("a"), 2, "error: a\n"),
        (
            TrainingInterrupted(signal.SIGTERM, 3, 3),
            143,
            "interrupted by SIGTERM; the state is saved, run the same command again to resume",
        ),
        (PellucidError("a", "b"), 1, "error: a\n\nhint: b\n"),
        (CheckpointError("a", "b"), 1, "error: a\n\nhint: b\n"),
        (
            OSError(28, "No space left"),
            1,
            "error: OSError: [Errno 28] No space left\n\nhint: run the command again with --debug",
        ),
        (KeyError("x"), 1, "error: KeyError: 'x'\n\nhint: run the command again with --debug"),
        (
            FileNotFoundError(2, "No such file or directory", "a\nb"),
            2,
            "error: cannot use `a\\nb`: No such file or directory\n\nhint: check the path and its permissions\n",
        ),
        (OSError(5, "Input/output error", "a"), 1, "error: cannot use `a`: Input/output error\n"),
        (MemoryError(), 1, "error: out of memory\n\nhint: use a smaller batch, beam or model"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes\nmore"),
            1,
            "error: out of memory: DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes\n",
        ),
        (KeyboardInterrupt(), 130, "interrupted by SIGINT; run the same command again to redo unsaved work\n"),
    ],
)
def test_what_goes_wrong_is_a_sentence_and_a_status(
    pellucid: CommandLine, error: BaseException, status: int, text: str
) -> None:
    raised.append(error)
    outcome = pellucid("recipes")
    assert (outcome.status, outcome.out) == (status, "")
    assert outcome.err.startswith(text)


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("error", [ConfigError("a", "b"), ValueError("x")])
@pytest.mark.parametrize("arguments", [["--debug", "recipes"], ["recipes", "--debug"]])
def test_debug_shows_the_traceback(error: Exception, arguments: list[str]) -> None:
    raised.append(error)
    with pytest.raises(type(error)):
        main(arguments)


@pytest.mark.usefixtures("failing")
def test_parameters_in_an_error_are_said_as_the_verbs_options(pellucid: CommandLine) -> None:
    raised.append(ConfigError("`name=` is a file", "choose another `out=`"))
    outcome = pellucid("average")
    assert outcome.err == "error: `name=` is a file\n\nhint: choose another `--out`\n"


def test_debug_changes_nothing_else(pellucid: CommandLine) -> None:
    assert pellucid("recipes", "--debug") == pellucid("recipes")


def test_warnings_are_one_line_each(pellucid: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(verb: str, args: list[str]) -> int:
        warnings.warn("a line is long", stacklevel=1)
        return 0

    monkeypatch.setattr(module, "_run", warn)
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert pellucid("recipes").err == "warning: a line is long\n"
    assert warnings.showwarning is before


def test_arguments_come_from_the_shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["pellucid", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("pellucid ")


@pytest.mark.slow
def test_a_closed_pipe_is_quiet() -> None:
    process = start("recipes", "default")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0
