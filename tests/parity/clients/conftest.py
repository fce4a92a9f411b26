"""A server with a key, for clients of others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.run.run import train
from pellucid.tasks.translator import Translator
from tests.toy_task import reversed_letters, small_recipe, write_pairs
from tests.unit.serve.serving import Server, serve

LINES = ["a b c", "d e f g", "h a"]


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model that states its pair, German to English."""
    place = tmp_path_factory.mktemp("clients")
    texts = write_pairs(place, reversed_letters(200))
    train(small_recipe(*texts), place / "run", source_language="de", target_language="en", device="cpu", quiet=True)
    return place / "run"


@pytest.fixture(scope="package")
def server(folder: Path) -> Iterator[Server]:
    with serve([folder], api_keys=["secret"]) as running:
        yield running


@pytest.fixture(scope="package")
def expected(folder: Path) -> list[str]:
    """The translations of LINES."""
    return [found.text for found in Translator.load(folder, "cpu").translate(LINES)]
