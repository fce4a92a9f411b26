"""The command line as a test calls it: within this process, or as one of its own where signals and pipes matter."""

import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from pellucid.cli.main import main
from tests.processes import python


@dataclass(frozen=True)
class Outcome:
    """What a command came to."""

    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The sentence after `error:`; there must be one, with a hint, and nothing else."""
        first, _, hint = self.err.partition("\n\nhint: ")
        assert first.startswith("error: "), self.err
        assert hint.endswith("\n"), self.err
        assert hint.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return first.removeprefix("error: ")

    @property
    def hint(self) -> str:
        """The sentence after `hint:`."""
        return self.err.partition("\n\nhint: ")[2].removesuffix("\n")


class CommandLine:
    """Runs `pellucid ARGUMENTS` within this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> Outcome:
        self.capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        return Outcome(status, *self.capsys.readouterr())


def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """Starts `pellucid ARGUMENTS` as a process of its own, whose output is buffered as usual."""
    command = [python(), "-m", "pellucid", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
