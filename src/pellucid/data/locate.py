"""The places of a recipe's texts: as named, in a data directory, in the user's cache, or where they are published."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pellucid.config import DataConfig
from pellucid.config.environment import OFFLINE_SWITCHES, is_offline
from pellucid.data.cache import cache_folder, damage
from pellucid.data.catalogue import PublishedFile, catalogue, total_size
from pellucid.data.download import announce, download, say
from pellucid.data.lines import read_lines
from pellucid.data.parallel import holds_both_sides
from pellucid.errors import DataError, shown

TEXT_FIELDS = ("src", "tgt", "valid_src", "valid_tgt", "test_src", "test_tgt")
ENVIRONMENT = "PELLUCID_DATA"
LIST = ".list"
"""Ends the name of a file that names files."""


def with_texts(data: DataConfig, **given: str | Sequence[str]) -> DataConfig:
    """Returns `data` with the texts that are given by the names of their fields; an empty one leaves it as it is.

    A source that holds both sides takes the place of a target, too.
    """
    named: dict[str, Any] = {name: paths if isinstance(paths, str) else tuple(paths) for name, paths in given.items()}
    named = {name: paths for name, paths in named.items() if paths}
    for src in ("src", "valid_src", "test_src"):
        tgt = src.replace("src", "tgt")
        paths = named.get(src, ())
        if paths and tgt not in named and all(map(holds_both_sides, [paths] if isinstance(paths, str) else paths)):
            named[tgt] = ""
    return replace(data, **named)


def locate(
    data: DataConfig,
    data_dir: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    fetch: bool = False,
) -> DataConfig:
    """Returns `data` with the paths of its texts found: as they are, in `data_dir`, in PELLUCID_DATA, or in the cache.

    Args:
        fetch: whether texts of the catalogue that are nowhere may be fetched from their publisher, unless the
            environment forbids it: is_offline().

    Raises DataError for a text to train or validate on that is nowhere and not fetched, naming the places.
    """
    folders = [Path(), *(Path(f) for f in (data_dir, environment.get(ENVIRONMENT)) if f)]
    search = _Search(folders, cache_folder(environment))
    data = replace(data, **{field: _listed(data.files(field), search) for field in TEXT_FIELDS[:2]})
    named = {path for field in TEXT_FIELDS for path in data.files(field)}
    needed = [path for field in TEXT_FIELDS[:4] for path in data.files(field)]
    found = {path: search.find(path) for path in named}
    if missing := [path for path in dict.fromkeys(needed) if not found[path]]:
        files = search.published(missing)
        if not fetch or is_offline(environment):
            raise search.not_found(missing[0], files)
        found |= search.fetch(files, sorted(path for path in named if not found[path]))
    return replace(data, **{field: _located(getattr(data, field), found) for field in TEXT_FIELDS})


def locate_test(
    data: DataConfig, data_dir: str | Path | None = None, environment: Mapping[str, str] = os.environ
) -> DataConfig:
    """Returns `data` with the paths of its test found where `locate` looks. Fetches nothing.

    Raises DataError for a text of the test that is nowhere, naming the places.
    """
    folders = [Path(), *(Path(f) for f in (data_dir, environment.get(ENVIRONMENT)) if f)]
    search = _Search(folders, cache_folder(environment))
    found = {path: search.find(path) for field in TEXT_FIELDS[4:] for path in data.files(field)}
    for path in (path for path, place in found.items() if not place):
        raise search.not_found(path, [])
    return replace(data, **{field: _located(getattr(data, field), found) for field in TEXT_FIELDS[4:]})


@dataclass(frozen=True)
class _Search:
    folders: Sequence[Path]
    cache: Path

    def find(self, path: str) -> str:
        """Returns where a text lies; empty where it is nowhere."""
        in_folders = [folder / path for folder in self.folders]
        found = next((candidate for candidate in in_folders if candidate.exists()), None) or self._in_cache(path)
        return str(found) if found else ""

    def _in_cache(self, path: str) -> Path | None:
        """Returns a text in the cache, if it is still what was fetched."""
        file, cached = catalogue().get(path), self.cache / path
        if file is None or not cached.is_file():
            return None
        if complaint := damage(cached, "" if file.members else file.sha256):
            say(f"{complaint}; it is not used")
            return None
        return cached

    def published(self, missing: Sequence[str]) -> list[PublishedFile]:
        """Returns the files in which the missing texts come. Raises DataError where nobody is known to publish one."""
        for path in missing:
            if path not in catalogue():
                raise self.not_found(path, [])
        return list({file.path: file for file in map(catalogue().__getitem__, missing)}.values())

    def fetch(self, files: list[PublishedFile], missing: Sequence[str]) -> dict[str, str]:
        """Fetches the files, and those of tests, which training can do without; returns where each text lies then."""
        others = [catalogue()[path] for path in missing if path in catalogue()]
        tests = list({file.path: file for file in others if file not in files}.values())
        announce([*files, *tests], self.cache)
        for file in files:
            download(file, self.cache)
        for file in tests:
            try:
                download(file, self.cache)
            except DataError as error:
                say(f"  {error}; training does not need it")
        return {path: str(self.cache / path) for path in missing if (self.cache / path).is_file()}

    def not_found(self, path: str, files: Sequence[PublishedFile]) -> DataError:
        """Returns the error for a text that is in none of the places."""
        places = [*(folder / path for folder in self.folders), *([self.cache / path] if files else [])]
        message = f"no file `{path}`; looked for {', '.join(f'`{place}`' for place in dict.fromkeys(places))}"
        hint = f"check the path, or name the folder that holds it by `data_dir=` or {ENVIRONMENT}"
        if not files:
            return DataError(message, hint)
        addresses = ", ".join(f"`{file.sources[0].url}`" for file in files)
        return DataError(
            f"{message}; offline, so not fetched: {addresses} ({total_size(files)})",
            f"{hint}, or let a training fetch it once, without `offline=True`, {' and '.join(OFFLINE_SWITCHES)}",
        )


def _listed(paths: Sequence[str], search: _Search) -> Any:
    """Returns the files that a path which ends in .list names, one a line, in its place.

    A relative one is beside the list, or else in the folder one is in.
    Raises DataError for a list that names none, and for a file that is not there.
    """
    found: list[str] = []
    for path in paths:
        place = search.find(path) if path.endswith(LIST) else ""
        if not place:
            found.append(path)
            continue
        named = [(number, line.strip()) for number, line in enumerate(read_lines(place), start=1)]
        named = [(number, name) for number, name in named if name and not name.startswith("#")]
        if not named:
            raise DataError(f"`{place}` names no file", "write the path of a file on each line of it")
        for number, name in named:
            beside = Path(place).parent / name
            if not (Path(name).exists() or beside.exists()):
                raise DataError(
                    f"no file `{shown(Path(name))}`, which line {number} of `{place}` names",
                    "check the path; a relative one is beside the list, or in the folder you are in",
                )
            found.append(str(beside) if beside.exists() else name)
    return tuple(found) or ""


def _located(field: str | Sequence[str], found: Mapping[str, str]) -> Any:
    if isinstance(field, str):
        return found.get(field) or field
    return tuple(found.get(path) or path for path in field)
