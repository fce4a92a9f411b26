"""A trained run, made once for all tests that only read it."""

from pathlib import Path

import pytest

from pellucid.run.run import train
from tests.toy_task import reversed_letters, small_recipe, write_pairs


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `run` of a finished training; beside it its texts, train.src and train.tgt."""
    folder = tmp_path_factory.mktemp("finished")
    train(small_recipe(*write_pairs(folder, reversed_letters(200))), folder / "run", quiet=True)
    return folder / "run"
