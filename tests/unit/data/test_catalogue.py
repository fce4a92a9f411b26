"""The catalogue: what can be fetched, and that all is said about it that a user has to know."""

import re
from urllib.parse import urlsplit

import pytest

from pellucid.config import Recipe, list_shipped_recipes
from pellucid.data.catalogue import PublishedFile, catalogue, read_catalogue, total_size
from pellucid.data.locate import TEXT_FIELDS

FILES = {file.path: file for file in catalogue().values()}


@pytest.mark.parametrize("name", list_shipped_recipes())
def test_each_text_of_a_recipe_can_be_fetched(name: str) -> None:
    data = Recipe.load(name).data
    assert {text for field in TEXT_FIELDS for text in data.files(field)} <= set(catalogue())


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_all_is_said_about_a_file(file: PublishedFile) -> None:
    assert file.title
    assert "cite" in file.terms
    assert file.publisher.startswith("https://")
    assert file.sources
    assert all(urlsplit(source.url).scheme == "https" and "{" not in source.url for source in file.sources)
    assert re.fullmatch("[0-9a-f]{64}|", file.sha256)
    # What has come can be told from the file only by one of the two: its checksum, or by being unpacked.
    assert file.sha256 or file.members
    assert bool(file.sha256) == bool(file.bytes)


def test_a_file_that_is_the_text() -> None:
    file = catalogue()["multi30k/train.de.gz"]
    assert (file.path, file.texts, file.bytes) == ("multi30k/train.de.gz", ("multi30k/train.de.gz",), 637044)
    assert file.sources[0].url.endswith("/multi30k/dataset/master/data/task1/raw/train.de.gz")
    assert f"sha256:{file.sha256}/" in file.sources[2].url
    assert "non-commercial" in file.terms


def test_an_archive_of_several() -> None:
    file = catalogue()["wmt14-en-de/commoncrawl.de"]
    assert file is catalogue()["wmt14-en-de/commoncrawl.en"]
    assert file.texts == ("wmt14-en-de/commoncrawl.en", "wmt14-en-de/commoncrawl.de")
    assert [source.url for source in file.sources] == [
        "https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
        "https://huggingface.co/datasets/wmt/wmt13/resolve/main/training-parallel-commoncrawl.tgz",
    ]


def test_sizes_in_words() -> None:
    head = '[s]\ntitle = "S"\npublisher = "p"\nterms = "t"\nsources = []\n'
    files = read_catalogue(
        f"{head}[s.files]\na = {{ bytes = 1_500_000 }}\nb = {{ bytes = 500_000 }}\nc = {{}}\nd = {{}}\n"
    )
    assert [file.size for file in files.values()] == ["1.5 MB", "500.0 kB", "size unknown", "size unknown"]
    assert total_size(files.values()) == "2.0 MB and 2 files of unknown size"
    assert total_size([files["s/a"], files["s/b"]]) == "2.0 MB"
    assert total_size([files["s/c"]]) == "1 file of unknown size"
