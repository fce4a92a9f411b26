"""Lines of text files, plain or gzip: UTF-8, ended by LF or CR LF and by nothing else."""

import gzip
import hashlib
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

from pellucid.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a text file, or of standard input for "-", without their ends.

    Raises DataError where there is no such file, where it is a folder, a broken gzip file, or not UTF-8 (with the line
    and the byte).
    """
    origin, number = "standard input" if str(path) == "-" else f"`{path}`", 0
    try:
        with ExitStack() as files:
            for number, raw in enumerate(_open(path, files), start=1):
                yield _decoded(raw, number, origin)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{origin} is a damaged gzip file after line {number:,}: {error}", "fetch it again") from error


def _decoded(raw: bytes, number: int, origin: str) -> str:
    """A line's text, without its end and, on the first line, without a byte order mark."""
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
    pairs = zip_longest(read_lines(src), read_lines(tgt))
    for source, target in pairs:
        if source is None or target is None:
            shorter, longer = (src, tgt) if source is None else (tgt, src)
            total = count + 1 + sum(1 for _ in pairs)
            raise DataError(
                f"`{src}` and `{tgt}` must have as many lines as each other, but `{shorter}` has {count:,} "
                f"and `{longer}` {total:,}",
                "line n of one file must be the translation of line n of the other",
            )
        count += 1
        yield source, target
    if count == 0:
        raise DataError(f"`{src}` and `{tgt}` are empty", "give two files with a sentence a line")


def fingerprint(path: str | Path) -> str:
    """The SHA-256 of the file as it lies there."""
    with _existing(Path(path)).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open(path: str | Path, files: ExitStack) -> Iterable[bytes]:
    """The raw lines; what has to be closed after them goes to `files`. Opened once, so that a pipe can be read, too."""
    if str(path) == "-":
        return sys.stdin.buffer
    file = files.enter_context(_existing(Path(path)).open("rb"))
    return files.enter_context(gzip.open(file)) if file.peek(2).startswith(GZIP_MAGIC) else file


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise DataError(f"`{path}` is a folder, not a text file", "name the file in it")
    if not path.exists():
        raise DataError(f"no file `{path}`", "check the path; it is relative to the folder you are in")
    return path
