"""A trained run, made once for all tests that only read it, and what many of them open."""

from pathlib import Path

import pytest
import torch

from pellucid.run.run import train
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters, small_recipe, write_pairs
from tests.unit.conversion.tutorial_models import write_vocabularies


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `run` of a finished training; beside it its texts, train.src and train.tgt."""
    folder = tmp_path_factory.mktemp("finished")
    train(small_recipe(*write_pairs(folder, reversed_letters(200))), folder / "run", quiet=True)
    return folder / "run"


@pytest.fixture(scope="session")
def other_weights(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that reads and writes as that of `finished_run`, with other weights."""
    found = Translator.load(finished_run, "cpu")
    torch.manual_seed(9)
    with torch.no_grad():
        for weights in found.model.parameters():
            weights.add_(torch.randn_like(weights), alpha=0.5)
    folder = tmp_path_factory.mktemp("other_weights") / "model"
    found.save(folder)
    return folder


@pytest.fixture(scope="module")
def translator(finished_run: Path) -> Translator:
    """The model of `finished_run`."""
    return Translator.load(finished_run, "cpu")


@pytest.fixture
def vocabularies(tmp_path: Path) -> dict[str, str]:
    """The options that name a tutorial's vocabularies."""
    return write_vocabularies(tmp_path)
