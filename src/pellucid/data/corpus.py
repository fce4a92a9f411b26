"""Lines of text files, plain or gzip: UTF-8, ended by LF or CR LF and by nothing else."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast

from pellucid.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a text file, without their ends.

    Raises DataError where there is no such file, where it is a folder, a broken gzip file, or not UTF-8 (with the line and
    the byte).
    """
    number = 0
    try:
        with _open(Path(path)) as file:
            for number, raw in enumerate(file, start=1):
                yield decode_line(raw, number, f"`{path}`")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"`{path}` is a damaged gzip file after line {number}: {error}", "fetch it again") from error


def decode_line(raw: bytes, number: int, origin: str) -> str:
    """A line's text, without its end and, on the first line, without a byte order mark. Raises DataError if it is not UTF-8."""
    try:
        return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{origin} is not UTF-8: line {number:,}, byte {error.start + 1} is 0x{error.object[error.start]:02x}",
            "convert it first, for instance `iconv -f latin1 -t utf-8` if it is Latin-1",
        ) from error


def read_pairs(src: str | Path, tgt: str | Path) -> Iterator[tuple[str, str]]:
    """The lines of two files side by side. Raises DataError where they are empty or differ in length."""
    count = 0
    for source, target in zip_longest(read_lines(src), read_lines(tgt)):
        if source is None or target is None:
            longer, more = (tgt, src) if source is None else (src, tgt)
            raise DataError(
                f"`{src}` and `{tgt}` must have as many lines as each other, but `{more}` ends after {count:,} lines "
                f"and `{longer}` goes on to {count_lines(longer):,}",
                "line n of one file must be the translation of line n of the other",
            )
        count += 1
        yield source, target
    if count == 0:
        raise DataError(f"`{src}` and `{tgt}` are empty", "give two files with a sentence a line")


def count_lines(path: str | Path) -> int:
    """How many lines the file has."""
    with _open(Path(path)) as file:
        return sum(1 for _ in file)


def fingerprint(path: str | Path) -> str:
    """The SHA-256 of the file as it lies there."""
    with _regular(Path(path)).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open(path: Path) -> BinaryIO:
    with _regular(path).open("rb") as file:
        zipped = file.read(2) == GZIP_MAGIC
    return cast(BinaryIO, gzip.open(path, "rb")) if zipped else path.open("rb")


def _regular(path: Path) -> Path:
    if path.is_dir():
        raise DataError(f"`{path}` is a folder, not a text file", "name the file in it")
    if not path.exists():
        raise DataError(f"no file `{path}`", "check the path; it is relative to the folder you are in")
    return path
