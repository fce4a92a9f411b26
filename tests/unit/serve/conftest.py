"""A server of a small model, which reads letters and turns them round, as from German to English."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.serve.serving import Server, serve


@pytest.fixture(scope="session")
def server(finished_run: Path) -> Iterator[Server]:
    with serve([f"de-en={finished_run}"]) as running:
        yield running


@pytest.fixture(scope="session")
def guarded(finished_run: Path) -> Iterator[Server]:
    """A server with two keys."""
    with serve([f"de-en={finished_run}"], api_keys=["secret", "schlüssel"]) as running:
        yield running
