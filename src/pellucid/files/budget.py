"""The limits for opening and reading an untrusted file. Every reader goes through this module.

    kind    only regular files are opened in an untrusted folder: opening a pipe could block forever
    place   a file that a folder names must be in that folder after all links are resolved
    bytes   a text, a settings file, the rows in memory together: a limit each, after decompression
    depth   elements within elements, tables within tables

A reader takes time and memory linear in the bytes that it reads; `tests/fuzz/growth.py` doubles sizes and compares.
"""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from pellucid.errors import CheckpointError, PellucidError

MOST_LINE_BYTES = 1 << 28
"""Bytes of a line of a corpus, 256 MiB: some corpora have one line, and some files are not text."""
MOST_TEXT_BYTES = 1 << 24
"""Bytes of an input line, a cell or a segment, 16 MiB: it is a sentence or a passage, and is in memory as a whole."""
MOST_TOGETHER_BYTES = 1 << 26
"""Bytes of lines or rows that are in memory together, 64 MiB."""
MOST_MEMBERS = 100_000
"""Members of an archive; the index of all of them is in memory."""
MOST_SETTINGS_BYTES = 16 * 2**20
"""Bytes of a settings file: a JSON table takes up to thirty times its length in memory."""
MOST_TOKENIZER_BYTES = 64 * 2**20
"""Bytes of a tokenizer file; the largest published ones have about half of it."""
MOST_LOG_BYTES = 256 * 2**20
"""Bytes of a run's log: a million lines."""
MOST_DEPTH = 100
"""Elements within elements, or tables within tables; published formats have fewer than ten."""

MOST_DOCUMENT_BYTES = 256 * 2**20
"""Bytes of a document, and of all members of one that is an archive, after decompression."""
MOST_PART_BYTES = 64 * 2**20
"""Bytes of a part of a document that contains text: it is in memory as a tree of a paragraph at a time."""
MOST_DOCUMENT_MEMBERS = 10_000
"""Members of a document that is an archive."""
MOST_RATIO, LEAST_BOMB_BYTES = 200, 2**20
"""The times that a member of a document may grow by decompression, if it has more bytes than this."""
MOST_ELEMENT_DEPTH = 400
"""Elements within elements in a part of a document: tables in tables, groups of shapes in groups."""
MOST_VALUE_DEPTH = 1000
"""Lists and tables within each other in a document of JSON or YAML."""
MOST_UNITS, MOST_UNIT_CHARACTERS = 1_000_000, 100_000
"""Units of a document that are translated, and the characters of one: a paragraph, a cell, a value."""


def resolve_inside(
    folder: Path, name: str | Path, error: type[PellucidError] = CheckpointError, hint: str = "copy the whole folder"
) -> Path:
    """Returns the path of `name` below `folder` with all links resolved. The file need not exist.

    Raises `error` if it is outside the folder, or its links form a circle.
    """
    try:
        place = (folder / name).resolve()
        inside = place.is_relative_to(folder.resolve())
        if place.is_symlink():  # Python 3.13 leaves a circle as it is
            raise RuntimeError(f"Symlink loop from '{place}'")
    except (OSError, RuntimeError, ValueError) as reason:  # a circle of links, or a NUL in the name
        raise error(f"cannot read `{folder / name}`: {_reason(reason)}", hint) from reason
    if not inside:
        raise error(f"`{folder / name}` is outside of its folder, at `{place}`", "name a file in the folder")
    return place


def open_regular(
    path: Path, error: type[PellucidError] = CheckpointError, hint: str = "copy the whole folder"
) -> BinaryIO:
    """Opens a regular file for reading. Raises `error` for a missing file and for a file of another kind."""
    try:
        # A plain open() would block on a pipe without a writer; Windows has neither these pipes nor this flag.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as reason:  # ValueError: a NUL in the name
        raise error(f"cannot read `{path}`: {_reason(reason)}", hint) from reason
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise error(f"cannot read `{path}`: it is {describe_file_type(mode)}, not a file", hint)
    return os.fdopen(handle, "rb")


def read_bytes(
    path: Path, most: int, error: type[PellucidError] = CheckpointError, hint: str = "copy the whole folder"
) -> bytes:
    """Returns the content of a regular file in a folder.

    Raises `error` if it is missing, is not a regular file, is a link out of its folder, or has more than `most`
    bytes. A path that a user names may be a link: resolve it first.
    """
    check_inside(path, error)
    with open_regular(path, error, hint) as file:
        try:
            data = file.read(most + 1)
        except OSError as reason:
            raise error(f"cannot read `{path}`: {_reason(reason)}", hint) from reason
    if len(data) > most:
        raise error(f"`{path}` has {path.stat().st_size:,} bytes; at most {most:,} are read", f"{hint} again")
    return data


def check_inside(path: Path, error: type[PellucidError] = CheckpointError) -> None:
    """Raises `error` for a link to a file outside the folder of the link.

    A cloned or unpacked folder may contain links. Their target could be a private file of the user, which a conversion
    would copy. Links into the cache of the Hugging Face hub are allowed, since its folders consist of them.
    """
    try:
        if not path.is_symlink():
            return
        target = path.resolve()
        inside = target.is_relative_to(path.parent.resolve())
    except (OSError, RuntimeError, ValueError):  # a circle, or an invalid name: it cannot be opened either
        return
    if not inside and not (target.parent.name == "blobs" and target.parent.parent.name.startswith("models--")):
        raise error(f"`{path}` is a link out of its folder, to `{target}`", "copy the file itself into the folder")


def describe_file_type(mode: int) -> str:
    """Returns the type of a file that is not regular, in words, by its `st_mode`."""
    names = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device")


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
