"""The texts that recipes need, who publishes them and where they can be fetched: read from catalogue.toml."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from rich import filesize


@dataclass(frozen=True)
class Source:
    """An address, and whether a download from there has ever worked."""

    url: str
    tried: bool


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """A file that somebody publishes: one text, or an archive that holds some."""

    data_set: str
    """The name of its data set, with which the paths of its texts begin."""
    title: str
    """The name of its data set for readers."""
    publisher: str
    """The page that speaks of it."""
    terms: str
    """The uses that its publisher allows."""
    name: str
    sources: tuple[Source, ...]
    """The places where it can be had, the publisher's own address first."""
    bytes: int | None = None
    sha256: str = ""
    """Empty where nobody has published one."""
    members: Mapping[str, str]
    """The texts in an archive: their name here, and there. Empty: the file is the text."""

    @property
    def path(self) -> str:
        """Returns its path below the cache."""
        return f"{self.data_set}/{self.name}"

    @property
    def texts(self) -> tuple[str, ...]:
        """Returns the paths of its texts, as recipes name them."""
        return tuple(f"{self.data_set}/{name}" for name in self.members or (self.name,))

    @property
    def size(self) -> str:
        """Returns how large it is, in words."""
        return "size unknown" if self.bytes is None else filesize.decimal(self.bytes)


@cache
def catalogue() -> dict[str, PublishedFile]:
    """Returns each text that can be fetched, by the path that recipes give it, with the file that it comes in."""
    return read_catalogue((resources.files("pellucid.data") / "catalogue.toml").read_text(encoding="utf-8"))


def read_catalogue(toml: str) -> dict[str, PublishedFile]:
    """Returns the same from the text of a catalogue.toml."""
    files = (
        _published(data_set, about, name, entry)
        for data_set, about in tomllib.loads(toml).items()
        for name, entry in about["files"].items()
    )
    return {text: file for file in files for text in file.texts}


def total_size(files: Iterable[PublishedFile]) -> str:
    """Returns the size of several files, in words; those of unknown size are counted apart."""
    sizes = [file.bytes for file in files]
    known = [size for size in sizes if size is not None]
    unknown = len(sizes) - len(known)
    words = [filesize.decimal(sum(known))] if known else []
    if unknown:
        words.append(f"{unknown} {'file' if unknown == 1 else 'files'} of unknown size")
    return " and ".join(words)


def _published(data_set: str, about: Mapping[str, Any], name: str, entry: Mapping[str, Any]) -> PublishedFile:
    sha256 = entry.get("sha256", "")
    sources = (
        Source(source["url"].format(name=name, sha256=sha256), source["tried"])
        for source in entry.get("sources", about.get("sources"))
    )
    return PublishedFile(
        data_set=data_set, title=about["title"], publisher=about["publisher"], terms=about["terms"], name=name,
        sources=tuple(sources), bytes=entry.get("bytes"), sha256=sha256, members=entry.get("members", {}),
    )  # fmt: skip
