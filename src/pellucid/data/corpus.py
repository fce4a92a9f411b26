"""Lines of text files, plain or gzip: UTF-8, ended by LF or CR LF and by nothing else."""

import gzip
import hashlib
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from pellucid.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
# In this order: the first mark begins with the third.
OTHER_ENCODINGS = {
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip

PARALLEL = "line n of one file must be the translation of line n of the other"

OnBadUtf8 = Literal["error", "replace", "skip"]
Told = Callable[[int, UnicodeDecodeError], object]
"""Is told the number of a line, and what is wrong in it."""


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a text file, or of standard input for "-", without their ends and without a byte order mark.

    Raises DataError where there is no such file, where it is a folder, a broken gzip file, UTF-16, or not UTF-8 (with
    the line and the byte).
    """
    for line in read_mended_lines(path, "error", lambda *_: None):
        assert line is not None
        yield line


def read_mended_lines(path: str | Path, on_bad_utf8: OnBadUtf8, told: Told) -> Iterator[str | None]:
    """The same, but a line that is not UTF-8 may come with U+FFFD for its bad bytes, or as None; `told` hears of it."""
    for number, raw in enumerate(_raw_lines(path), start=1):
        try:
            yield raw.decode()
        except UnicodeDecodeError as error:
            if on_bad_utf8 == "error":
                raise DataError(
                    f"{origin(path)} is not UTF-8: line {number:,}, {bad_byte(error)}",
                    "convert it first, for instance `iconv -f latin1 -t utf-8` if it is Latin-1; or see "
                    "`data.on_bad_utf8` for single lines",
                ) from error
            told(number, error)
            yield raw.decode(errors="replace") if on_bad_utf8 == "replace" else None


def bad_byte(error: UnicodeDecodeError) -> str:
    """Which byte of a line is wrong, in words."""
    return f"byte {error.start + 1} is 0x{error.object[error.start]:02x}"


def read_pairs(src: str | Path, tgt: str | Path) -> Iterator[tuple[str, str]]:
    """The lines of two files side by side. Raises DataError where they are empty or differ in length."""
    count = 0
    pairs = zip_longest(read_lines(src), read_lines(tgt))
    for source, target in pairs:
        if source is None or target is None:
            total = count + 1 + sum(1 for _ in pairs)
            counts = (count, total) if source is None else (total, count)
            raise DataError(unequal(src, tgt, *counts), PARALLEL)
        count += 1
        yield source, target
    if count == 0:
        raise DataError(f"`{src}` and `{tgt}` are empty", "give two files with a sentence a line")


def unequal(src: str | Path, tgt: str | Path, sources: int, targets: int) -> str:
    """That two files differ in their number of lines, in words: the shorter one first."""
    (few, shorter), (many, longer) = sorted(((sources, str(src)), (targets, str(tgt))))
    sizes = f"`{shorter}` has {few:,} and `{longer}` {many:,}"
    return f"`{src}` and `{tgt}` must have as many lines as each other, but {sizes}"


def fingerprint(path: str | Path) -> str:
    """The SHA-256 of the file as it lies there."""
    with _existing(Path(path)).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def origin(path: str | Path) -> str:
    """A file's name in a message."""
    return "standard input" if str(path) == "-" else f"`{path}`"


def _raw_lines(path: str | Path) -> Iterator[bytes]:
    """The lines as bytes, without their ends, and the first without a byte order mark."""
    number = 0
    try:
        with ExitStack() as files:
            for number, raw in enumerate(_open(path, files), start=1):
                line = raw.removesuffix(b"\n").removesuffix(b"\r")
                yield line if number > 1 else line.removeprefix(b"\xef\xbb\xbf")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{origin(path)} is a damaged gzip file after line {number:,}: {error}", "fetch it again"
        ) from error


def _open(path: str | Path, files: ExitStack) -> Iterable[bytes]:
    """The raw lines; what has to be closed after them goes to `files`. Opened once, so that a pipe can be read, too."""
    if str(path) == "-":
        return sys.stdin.buffer
    file = files.enter_context(_existing(Path(path)).open("rb"))
    lines = files.enter_context(gzip.GzipFile(fileobj=file)) if file.peek(2).startswith(GZIP_MAGIC) else file
    _check_encoding(lines.peek(1 << 10), path)
    return lines


def _check_encoding(head: bytes, path: str | Path) -> None:
    """Raises DataError where a file begins as UTF-16 or UTF-32 do: with their mark, or with every other byte zero."""
    found = next((name for mark, name in OTHER_ENCODINGS.items() if head.startswith(mark)), None)
    for name, zeros in (("UTF-16BE", head[0::2]), ("UTF-16LE", head[1::2])):
        if found is None and len(head) > 3 and zeros.count(0) > 0.7 * len(zeros):
            found = name
    if found:
        raise DataError(
            f"{origin(path)} is {found}, not UTF-8",
            f"convert it first: `iconv -f {found.lower()} -t utf-8 < {path} > {path}.utf8`",
        )


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise DataError(f"`{path}` is a folder, not a text file", "name the file in it")
    if not path.exists():
        raise DataError(f"no file `{path}`", "check the path; it is relative to the folder you are in")
    return path
