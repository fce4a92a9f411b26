"""The user's cache of downloaded texts, with checksums that detect changed files.

The checksum of each file NAME is in NAME.sha256, in the format of `sha256sum`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pellucid.errors import ConfigError
from pellucid.files.reading import hash_file

ENVIRONMENT = "PELLUCID_CACHE"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder that PELLUCID_CACHE names, else `pellucid` in XDG_CACHE_HOME, else ~/.cache/pellucid."""
    if own := environment.get(ENVIRONMENT):
        return _home_cache(own)
    shared = Path(environment.get("XDG_CACHE_HOME", ""))  # its specification ignores a relative path
    return (shared if shared.is_absolute() else _home_cache("~/.cache")) / "pellucid"


def _home_cache(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            "no home directory for the cache: HOME is not set, and this user has no home directory",
            f"set {ENVIRONMENT} to a folder",
        ) from error


def read_recorded_sha256(path: Path) -> str:
    """Returns the recorded SHA-256 of a file; empty if there is none."""
    record = _record(path)
    return record.read_text(encoding="ascii", errors="replace").partition(" ")[0] if record.is_file() else ""


def record_sha256(path: Path, sha256: str) -> None:
    """Records the SHA-256 of a file."""
    temporary = _record(path).with_name(f".{path.name}.sha256.{os.getpid()}")
    temporary.write_text(f"{sha256}  {path.name}\n", encoding="ascii", newline="\n")
    os.replace(temporary, _record(path))


def find_checksum_mismatch(path: Path, published: str = "") -> str:
    """Returns a sentence with both checksums if a file of the cache has changed; else an empty string.

    If the file has neither a published nor a recorded checksum, its present checksum is recorded.
    """
    found, expected = hash_file(path), published or read_recorded_sha256(path)
    if not expected:
        record_sha256(path, found)
    if expected in ("", found):
        return ""
    return f"`{path}` is damaged: its SHA-256 is {found} instead of {expected}"


def _record(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
