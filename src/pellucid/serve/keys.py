"""The keys of a server's users, compared in constant time."""

import hmac
import os
from collections.abc import Iterable
from pathlib import Path

from pellucid.errors import DataError, format_value
from pellucid.files.budget import MOST_SETTINGS_BYTES, read_bytes
from pellucid.terminal import log_line


class Keys:
    """A set of keys; an empty set allows everybody."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._keys = [key.encode("utf-8", "surrogatepass") for key in keys if key]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def has(self, key: str) -> bool:
        """Returns True if a key is one of the set. All keys are compared, so that the time tells nothing."""
        given = key.encode("utf-8", "surrogatepass")
        return sum(hmac.compare_digest(given, each) for each in self._keys) > 0


def read_keys(path: str | Path) -> list[str]:
    """Returns the keys in a file, one per line; empty lines and lines that begin with # are skipped.

    Warns if others than the owner can read the file. Raises DataError if it has no key or cannot be read.
    """
    path = Path(path)
    data = read_bytes(path, MOST_SETTINGS_BYTES, DataError, "write a file with one key per line")
    try:
        lines = [line.strip() for line in data.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise DataError(f"`{format_value(path)}` is not UTF-8", "write one key per line") from None
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise DataError(f"`{format_value(path)}` has no key", "write one key per line")
    if os.name == "posix" and path.stat().st_mode & 0o077:
        log_line(f"warning: others than its owner can read `{format_value(path)}`: chmod 600 {format_value(path)}")
    return keys
