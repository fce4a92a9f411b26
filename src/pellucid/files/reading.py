"""Files that strangers wrote: regular ones alone, no longer than they need be, each setting of its kind.

A folder may come from anybody, so its names prove nothing: `config.json` may be a pipe that never ends, a device, or
larger than memory.
"""

import hashlib
import json
import math
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError, quoted

MOST_SETTINGS_BYTES = 16 * 2**20
"""Bytes of a file of settings that are read: a table of JSON takes up to thirty times its length in memory."""
MOST_TOKENIZER_BYTES = 64 * 2**20
"""Bytes of a tokenizer's file that are read; the largest that are published have about half of it."""
MOST_ID = 2**22
"""Ids are below it: no vocabulary that is published reaches a quarter of it."""


def read_bytes(path: Path, most: int) -> bytes:
    """Returns what a regular file holds, and opens nothing else.

    Raises CheckpointError where it is missing, is not a regular file (a pipe would be waited for without end), or has
    more than `most` bytes.
    """
    try:
        # A pipe that nobody writes to would keep a plain open() waiting; Windows has neither these pipes nor this flag.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CheckpointError(f"cannot read `{path}`: {_reason(error)}", "copy the whole folder") from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise CheckpointError(f"cannot read `{path}`: it is {_kind(mode)}, not a file", "copy the whole folder")
    with os.fdopen(handle, "rb") as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise CheckpointError(f"cannot read `{path}`: {_reason(error)}", "copy the whole folder") from error
    if len(data) > most:
        raise CheckpointError(
            f"`{path}` has {path.stat().st_size:,} bytes; at most {most:,} are read", "copy the whole folder again"
        )
    return data


def read_text(path: Path, most: int) -> str:
    """Returns the UTF-8 text of such a file. Raises CheckpointError, besides, for bytes that are not UTF-8."""
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"`{path}` is damaged: {error}", "copy the file again") from error


def read_settings(path: Path) -> dict[str, Any]:
    """Returns the table of a JSON file. Raises CheckpointError where it is damaged, or holds no table."""
    return parse_settings(read_bytes(path, MOST_SETTINGS_BYTES), str(path))


def parse_settings(data: bytes, name: str) -> dict[str, Any]:
    """Returns the table in the bytes of a JSON file called `name`. Raises CheckpointError for other bytes."""
    try:
        table = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"`{name}` is damaged: {str(error)[:200]}", "copy the folder again") from error
    if not isinstance(table, dict):
        raise CheckpointError(f"`{name}` is damaged: it holds no table of settings", "copy the file again")
    return table


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Kind:
    """A kind of value that a setting may have."""

    words: str
    """As an error says it."""
    fits: Callable[[Any], bool]

    def __or__(self, other: "Kind") -> "Kind":
        return Kind(f"{self.words} or {other.words}", lambda value: self.fits(value) or other.fits(value))


def list_of(kind: Kind) -> Kind:
    """Returns the kind of a list whose members are all of one kind."""
    return Kind(f"a list of {kind.words}", lambda value: isinstance(value, list) and all(map(kind.fits, value)))


NOTHING = Kind("null", lambda value: value is None)
SWITCH = Kind("true or false", lambda value: isinstance(value, bool))
TEXT = Kind("a string", lambda value: isinstance(value, str))
WHOLE = Kind("a whole number", lambda value: type(value) is int and abs(value) < 2**63)
NUMBER = Kind("a finite number", lambda value: WHOLE.fits(value) or (isinstance(value, float) and math.isfinite(value)))
POSITIVE = Kind("a number above 0", lambda value: NUMBER.fits(value) and value > 0)
ID = Kind(f"an id of 0 to {MOST_ID - 1:,}", lambda value: type(value) is int and 0 <= value < MOST_ID)
TABLE = Kind("a table", lambda value: isinstance(value, dict))


def check_kinds(table: Mapping[str, Any], kinds: Mapping[str, Kind], path: Path) -> None:
    """Raises CheckpointError for a setting of the file `path` that is of another kind than `kinds` says.

    It names the setting, its value and what is allowed. Settings that `kinds` does not know are not looked at.
    """
    for name, kind in kinds.items():
        if name in table and not kind.fits(table[name]):
            raise CheckpointError(
                f"`{path}` has `{name}` = {quoted(table[name])}; it must be {kind.words}",
                f"{path.name} is damaged, or written by hand: copy the folder again",
            )


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _kind(mode: int) -> str:
    names = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device")
