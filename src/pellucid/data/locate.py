"""Locates a recipe's texts: by their path, in a data directory, in the user's cache, or at their publisher."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pellucid.config import DataConfig
from pellucid.config.environment import OFFLINE_SWITCHES, is_offline
from pellucid.data.catalogue import PublishedFile, catalogue, total_size
from pellucid.data.download import announce, download
from pellucid.data.download_cache import cache_folder, find_checksum_mismatch
from pellucid.data.lines import read_lines
from pellucid.data.parallel import holds_both_sides
from pellucid.errors import DataError, format_value
from pellucid.terminal import log_line

TEXT_FIELDS = ("src", "tgt", "valid_src", "valid_tgt", "test_src", "test_tgt")
ENVIRONMENT = "PELLUCID_DATA"
LIST = ".list"
"""Suffix of a file that lists files."""


def override_paths(data: DataConfig, **given: str | Sequence[str]) -> DataConfig:
    """Returns `data` with the texts `given` by field name; an empty value leaves the field unchanged.

    A source that contains both sides also replaces the target.
    """
    named: dict[str, Any] = {name: paths if isinstance(paths, str) else tuple(paths) for name, paths in given.items()}
    named = {name: paths for name, paths in named.items() if paths}
    for src in ("src", "valid_src", "test_src"):
        tgt = src.replace("src", "tgt")
        paths = named.get(src, ())
        if paths and tgt not in named and all(map(holds_both_sides, [paths] if isinstance(paths, str) else paths)):
            named[tgt] = ""
    return replace(data, **named)


def resolve_paths(
    data: DataConfig,
    data_dir: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    fetch: bool = False,
) -> DataConfig:
    """Returns `data` with resolved paths of its texts: as given, in `data_dir`, in PELLUCID_DATA, or in the cache.

    Args:
        fetch: whether missing texts of the catalogue may be downloaded from their publisher, unless the environment
            forbids it: is_offline().

    Raises DataError, which names the places, for a training or validation text that is missing and not downloaded.
    """
    folders = [Path(), *(Path(f) for f in (data_dir, environment.get(ENVIRONMENT)) if f)]
    search = _Search(folders, environment)
    data = replace(data, **{field: _read_list(data.files(field), search) for field in TEXT_FIELDS[:2]})
    named = {path for field in TEXT_FIELDS for path in data.files(field)}
    needed = [path for field in TEXT_FIELDS[:4] for path in data.files(field)]
    found = {path: search.find(path) for path in named}
    if missing := [path for path in dict.fromkeys(needed) if not found[path]]:
        files = search.find_published(missing)
        if not fetch or is_offline(environment):
            raise search.not_found(missing[0], files)
        found |= search.fetch(files, sorted(path for path in named if not found[path]))
    return replace(data, **{field: _replace_paths(getattr(data, field), found) for field in TEXT_FIELDS})


def locate_test(
    data: DataConfig, data_dir: str | Path | None = None, environment: Mapping[str, str] = os.environ
) -> DataConfig:
    """Returns `data` with resolved paths of its test set, as in `resolve_paths`. Downloads nothing.

    Raises DataError, which names the places, for a missing text of the test set.
    """
    folders = [Path(), *(Path(f) for f in (data_dir, environment.get(ENVIRONMENT)) if f)]
    search = _Search(folders, environment)
    found = {path: search.find(path) for field in TEXT_FIELDS[4:] for path in data.files(field)}
    for path in (path for path, place in found.items() if not place):
        raise search.not_found(path, [])
    return replace(data, **{field: _replace_paths(getattr(data, field), found) for field in TEXT_FIELDS[4:]})


@dataclass(frozen=True)
class _Search:
    folders: Sequence[Path]
    environment: Mapping[str, str]

    @property
    def cache(self) -> Path:
        """The user's cache. Raises ConfigError if there is no folder for a cache, which most texts do not need."""
        return cache_folder(self.environment)

    def find(self, path: str) -> str:
        """Returns the path of a text; empty if it is not found."""
        in_folders = [folder / path for folder in self.folders]
        found = next((candidate for candidate in in_folders if candidate.exists()), None) or self._find_in_cache(path)
        return str(found) if found else ""

    def _find_in_cache(self, path: str) -> Path | None:
        """Returns a text in the cache, or None if it is missing or its checksum differs."""
        if (file := catalogue().get(path)) is None or not (cached := self.cache / path).is_file():
            return None
        if complaint := find_checksum_mismatch(cached, "" if file.members else file.sha256):
            log_line(f"{complaint}; it is not used")
            return None
        return cached

    def find_published(self, missing: Sequence[str]) -> list[PublishedFile]:
        """Returns the published files that contain the missing texts. Raises DataError for a text without publisher."""
        for path in missing:
            if path not in catalogue():
                raise self.not_found(path, [])
        return list({file.path: file for file in map(catalogue().__getitem__, missing)}.values())

    def fetch(self, files: list[PublishedFile], missing: Sequence[str]) -> dict[str, str]:
        """Downloads the files, and files of test sets, which may fail; returns the path of each text."""
        others = [catalogue()[path] for path in missing if path in catalogue()]
        tests = list({file.path: file for file in others if file not in files}.values())
        announce([*files, *tests], self.cache)
        for file in files:
            download(file, self.cache)
        for file in tests:
            try:
                download(file, self.cache)
            except DataError as error:
                log_line(f"  {error}; training does not need it")
        return {path: str(self.cache / path) for path in missing if (self.cache / path).is_file()}

    def not_found(self, path: str, files: Sequence[PublishedFile]) -> DataError:
        """Returns the error for a text that was not found."""
        places = [*(folder / path for folder in self.folders), *([self.cache / path] if files else [])]
        message = f"no file `{path}`; looked for {', '.join(f'`{place}`' for place in dict.fromkeys(places))}"
        hint = f"check the path, or name the folder that holds it by `data_dir=` or {ENVIRONMENT}"
        if not files:
            return DataError(message, hint)
        addresses = ", ".join(f"`{file.sources[0].url}`" for file in files)
        return DataError(
            f"{message}; not downloaded in offline mode: {addresses} ({total_size(files)})",
            f"{hint}, or download it once by a training without `offline=True`, {' and '.join(OFFLINE_SWITCHES)}",
        )


def _read_list(paths: Sequence[str], search: _Search) -> Any:
    """Returns the paths, with each path that ends in .list replaced by the files that it lists, one per line.

    A relative path is resolved against the folder of the list, or else against the current folder.
    Raises DataError for a list without files, and for a missing file.
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
            raise DataError(f"`{place}` lists no file", "write one path per line")
        for number, name in named:
            sibling = Path(place).parent / name
            if not (Path(name).exists() or sibling.exists()):
                raise DataError(
                    f"no file `{format_value(Path(name))}`, listed in line {number} of `{place}`",
                    "check the path; a relative path starts at the folder of the list, or at the current directory",
                )
            found.append(str(sibling) if sibling.exists() else name)
    return tuple(found) or ""


def _replace_paths(field: str | Sequence[str], found: Mapping[str, str]) -> Any:
    if isinstance(field, str):
        return found.get(field) or field
    return tuple(found.get(path) or path for path in field)
