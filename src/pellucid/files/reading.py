"""Reading of untrusted files: regular files only, of limited size, with settings of the expected kinds.

The names in an untrusted folder prove nothing: `config.json` may be an endless pipe, a device, or larger than memory.
"""

import hashlib
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pellucid.errors import CheckpointError, format_quoted, format_value
from pellucid.files.budget import MOST_DEPTH, MOST_SETTINGS_BYTES, read_bytes

_PART = r"(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')"
_DEEP_KEY = re.compile(rf"(?<![\w.-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MOST_DEPTH}}}")
MOST_ID = 2**22
"""The exclusive upper bound of ids: no published vocabulary reaches a quarter of it."""


def read_text(path: Path, most: int) -> str:
    """Returns the text of a file. Raises CheckpointError as `read_bytes` does, and for bytes that are not UTF-8."""
    return decode_text(read_bytes(path, most), path)


def decode_text(data: bytes, path: Path) -> str:
    """Returns the text in the bytes of a file. Raises CheckpointError for bytes that are not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"`{path}` is damaged: {error}", "copy the file again") from error


def read_settings(path: Path) -> dict[str, Any]:
    """Returns the table of a JSON file. Raises CheckpointError if it is damaged, or holds no table."""
    return parse_settings(read_bytes(path, MOST_SETTINGS_BYTES), str(path))


def read_list(path: Path, most: int) -> list[str]:
    """Returns the list of strings in a JSON file, as of a vocabulary. Raises CheckpointError for other content."""
    try:
        found = parse_json(read_bytes(path, most))
    except ValueError as error:
        raise CheckpointError(f"`{path}` is damaged: {str(error)[:200]}", "copy the folder again") from error
    if not make_list_kind(TEXT).fits(found):
        raise CheckpointError(f"`{path}` is damaged: it is not a list of strings", "copy the file again")
    return cast(list[str], found)


def read_stored_table(path: Path) -> dict[str, Any]:
    """Returns the table of a JSON file with information on its folder; an empty table if it cannot be read."""
    try:
        return read_settings(path)
    except CheckpointError:
        return {}


def parse_settings(data: bytes, name: str) -> dict[str, Any]:
    """Returns the table in the bytes of a JSON file called `name`. Raises CheckpointError for other bytes."""
    try:
        table = parse_json(data)
    except ValueError as error:
        raise CheckpointError(f"`{name}` is damaged: {str(error)[:200]}", "copy the folder again") from error
    if not isinstance(table, dict):
        raise CheckpointError(f"`{name}` is damaged: it is not a table of settings", "copy the file again")
    return table


def parse_json(data: bytes | str, no_doubles: bool = False) -> Any:
    """Returns the value in a JSON text, in time linear in its length.

    Raises ValueError for invalid or too deeply nested JSON, and, with `no_doubles`, for a key that occurs twice in a
    table: another reader could take the other value.
    """
    try:
        return json.loads(data, object_pairs_hook=_refuse_duplicates if no_doubles else None)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def parse_toml(text: str) -> dict[str, Any]:
    """Returns the tables of a TOML text. Raises ValueError for invalid or too deeply nested TOML.

    The time of `tomllib` grows with the square of the parts of a dotted key, so these are counted first.
    """
    if _DEEP_KEY.search(text):
        raise ValueError(f"it has a key of more than {MOST_DEPTH} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"it has `{format_value(counts.most_common(1)[0][0])}` twice")
    return table


def hash_file(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Kind:
    """A kind of value that a setting may have."""

    words: str
    """The description in messages."""
    fits: Callable[[Any], bool]

    def __or__(self, other: "Kind") -> "Kind":
        return Kind(f"{self.words} or {other.words}", lambda value: self.fits(value) or other.fits(value))


def make_list_kind(kind: Kind) -> Kind:
    """Returns the kind of a list whose elements are all of one kind."""
    return Kind(f"a list of {kind.words}", lambda value: isinstance(value, list) and all(map(kind.fits, value)))


NOTHING = Kind("null", lambda value: value is None)
SWITCH = Kind("true or false", lambda value: isinstance(value, bool))
TEXT = Kind("a string", lambda value: isinstance(value, str))
WHOLE = Kind("a whole number", lambda value: type(value) is int and abs(value) < 2**63)
COUNT = Kind("a whole number of at least 0", lambda value: WHOLE.fits(value) and value >= 0)
NUMBER = Kind("a finite number", lambda value: WHOLE.fits(value) or (isinstance(value, float) and math.isfinite(value)))
POSITIVE = Kind("a number above 0", lambda value: NUMBER.fits(value) and value > 0)
ID = Kind(f"an id of 0 to {MOST_ID - 1:,}", lambda value: type(value) is int and 0 <= value < MOST_ID)
TABLE = Kind("a table", lambda value: isinstance(value, dict))


def check_kinds(table: Mapping[str, Any], kinds: Mapping[str, Kind], path: Path) -> None:
    """Raises CheckpointError for a setting of the file `path` whose kind differs from the one in `kinds`.

    The message has the setting, its value and the allowed kind. Settings without an entry in `kinds` are not checked.
    """
    for name, kind in kinds.items():
        if name in table and not kind.fits(table[name]):
            raise CheckpointError(
                f"`{path}` has `{name}` = {format_quoted(table[name])}; it must be {kind.words}",
                f"{path.name} is damaged, or written by hand: copy the folder again",
            )
