"""The texts that recipes need, their publishers and download addresses: read from catalogue.toml."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from rich import filesize


@dataclass(frozen=True)
class Mirror:
    """A download address, and whether a download from it has ever worked."""

    url: str
    tried: bool


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """A published file: one text, or an archive of texts."""

    data_set: str
    """The name of the data set, with which the paths of its texts begin."""
    title: str
    """The name of the data set for readers."""
    publisher: str
    """The publisher's page about the file."""
    terms: str
    """The uses that the publisher allows."""
    name: str
    sources: tuple[Mirror, ...]
    """The download addresses, the publisher's first."""
    bytes: int | None = None
    sha256: str = ""
    """Empty if none is published."""
    members: Mapping[str, str]
    """The texts in an archive: name in the cache to name in the archive. If empty, the file is the text."""

    @property
    def path(self) -> str:
        """Returns the path of the file below the cache."""
        return f"{self.data_set}/{self.name}"

    @property
    def texts(self) -> tuple[str, ...]:
        """Returns the paths of the texts, as recipes name them."""
        return tuple(f"{self.data_set}/{name}" for name in self.members or (self.name,))

    @property
    def size(self) -> str:
        """Returns the size of the file in words."""
        return "size unknown" if self.bytes is None else filesize.decimal(self.bytes)


@cache
def catalogue() -> dict[str, PublishedFile]:
    """Returns the published file of each text that can be downloaded, by the path of the text in recipes."""
    return read_catalogue((resources.files("pellucid.data") / "catalogue.toml").read_text(encoding="utf-8"))


def read_catalogue(toml: str) -> dict[str, PublishedFile]:
    """Returns the published files of a catalogue.toml, as `catalogue` does."""
    files = (
        _make_published_file(data_set, about, name, entry)
        for data_set, about in tomllib.loads(toml).items()
        for name, entry in about["files"].items()
    )
    return {text: file for file in files for text in file.texts}


def total_size(files: Iterable[PublishedFile]) -> str:
    """Returns the size of several files in words; files of unknown size are counted separately."""
    sizes = [file.bytes for file in files]
    known = [size for size in sizes if size is not None]
    unknown = len(sizes) - len(known)
    words = [filesize.decimal(sum(known))] if known else []
    if unknown:
        words.append(f"{unknown} {'file' if unknown == 1 else 'files'} of unknown size")
    return " and ".join(words)


def _make_published_file(data_set: str, about: Mapping[str, Any], name: str, entry: Mapping[str, Any]) -> PublishedFile:
    sha256 = entry.get("sha256", "")
    sources = (
        Mirror(source["url"].format(name=name, sha256=sha256), source["tried"])
        for source in entry.get("sources", about.get("sources"))
    )
    return PublishedFile(
        data_set=data_set, title=about["title"], publisher=about["publisher"], terms=about["terms"], name=name,
        sources=tuple(sources), bytes=entry.get("bytes"), sha256=sha256, members=entry.get("members", {}),
    )  # fmt: skip
