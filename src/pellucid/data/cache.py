"""The user's cache of fetched texts, and the checksums that show whether they are still what they were.

Beside each file NAME lies NAME.sha256, as `sha256sum` writes it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pellucid.errors import ConfigError
from pellucid.files.reading import sha256_of

ENVIRONMENT = "PELLUCID_CACHE"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder that PELLUCID_CACHE names, else `pellucid` in XDG_CACHE_HOME, else ~/.cache/pellucid."""
    if own := environment.get(ENVIRONMENT):
        return _at_home(own)
    shared = Path(environment.get("XDG_CACHE_HOME", ""))  # to be ignored where it is relative, says its specification
    return (shared if shared.is_absolute() else _at_home("~/.cache")) / "pellucid"


def _at_home(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            "there is no home directory for a cache: HOME is not set, and this user has none",
            f"name a folder by {ENVIRONMENT}",
        ) from error


def recorded_sha256(path: Path) -> str:
    """Returns the SHA-256 that was written down for a file; empty where none was."""
    record = _record(path)
    return record.read_text(encoding="ascii", errors="replace").partition(" ")[0] if record.is_file() else ""


def record_sha256(path: Path, sha256: str) -> None:
    """Writes down a file's SHA-256."""
    temporary = _record(path).with_name(f".{path.name}.sha256.{os.getpid()}")
    temporary.write_text(f"{sha256}  {path.name}\n", encoding="ascii", newline="\n")
    os.replace(temporary, _record(path))


def damage(path: Path, published: str = "") -> str:
    """Returns what is wrong with a file of the cache, in a sentence with both checksums; empty where nothing is.

    The first time, a file that nobody has published a checksum of has its own written down.
    """
    found, expected = sha256_of(path), published or recorded_sha256(path)
    if not expected:
        record_sha256(path, found)
    if expected in ("", found):
        return ""
    return f"`{path}` is not what it was: its SHA-256 is {found}, but should be {expected}"


def _record(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
