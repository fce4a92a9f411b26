"""The command line for the tests of its verbs, and texts for it."""

from pathlib import Path

import pytest

from tests.toy_task import write_pairs
from tests.unit.cli.command_line import CommandLine


@pytest.fixture
def pellucid(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Runs `pellucid ARGUMENTS` and returns its status, output and complaint."""
    return CommandLine(capsys)


@pytest.fixture
def unflagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches the quality flags off: a model of six steps repeats itself in nearly every line."""
    monkeypatch.setattr("pellucid.tasks.translator.add_flags", lambda found, *args, **options: list(found))


@pytest.fixture
def texts(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The test module's PAIRS as two files."""
    return write_pairs(tmp_path, request.module.PAIRS, "test")
