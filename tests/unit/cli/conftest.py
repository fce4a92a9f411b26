"""The command line for the tests of its verbs."""

import pytest

from tests.unit.cli.command_line import CommandLine


@pytest.fixture
def pellucid(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Runs `pellucid ARGUMENTS` and returns its status, output and complaint."""
    return CommandLine(capsys)
