"""Lines of text files, plain, gzip or Zstandard: UTF-8, ended by LF or CR LF and by nothing else."""

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, cast

from pellucid.config.data import OnBadUtf8
from pellucid.errors import DataError, shown
from pellucid.files.compression import GZIP_MAGIC, ZSTD_MAGIC, zstd
from pellucid.files.reading import sha256_of

# In this order: the first mark begins with the third.
OTHER_ENCODINGS = {
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip

LIKELY_ENCODINGS = {"cp949": "Korean", "gb18030": "Chinese", "cp932": "Japanese", "cp1252": "Western European"}
"""The encodings that text which is not UTF-8 is most often in. Several of them can read the same bytes."""

MOST_LINE_BYTES = 1 << 28
"""The longest line of a corpus, 256 MiB: there are corpora of one line, and there are files that are not text."""

STRETCH = 2048
"""Lines that are answered together: enough to sort by length, few enough to see output soon."""

PARALLEL = "line n of one file must be the translation of line n of the other"

Told = Callable[[int, UnicodeDecodeError], object]
"""Is told the number of a line, and what is wrong in it."""


def read_lines(path: str | Path) -> Iterator[str]:
    """Yields the lines of a text file, or of standard input for "-", without their ends and without a byte order mark.

    Raises DataError where there is no such file, where it is a folder, a broken gzip file, UTF-16, or not UTF-8 (with
    the line and the byte).
    """
    for line in read_mended_lines(path, "error", lambda *_: None):
        assert line is not None
        yield line


def read_mended_lines(path: str | Path, on_bad_utf8: OnBadUtf8, told: Told, skip: int = 0) -> Iterator[str | None]:
    """Yields the same, but a line that is not UTF-8 may come with U+FFFD for its bad bytes, or as None; `told` hears of
    it. The first `skip` lines are passed over.
    """
    file = standard_input() if str(path) == "-" else existing(Path(path)).open("rb")
    try:
        for number, raw in enumerate(raw_lines(file, path, skip=skip), start=skip + 1):
            yield decode_line(raw, number, path, on_bad_utf8, told)
    finally:
        if str(path) != "-":
            file.close()


def decode_line(raw: bytes, number: int, path: str | Path, on_bad_utf8: OnBadUtf8, told: Told) -> str | None:
    """Returns the text of a line; of one that is not UTF-8 what `on_bad_utf8` says, and `told` hears of it.

    Raises DataError, with the line and the byte, where that is "error".
    """
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        if on_bad_utf8 == "error":
            raise DataError(
                f"{origin(path)} is not UTF-8: line {number:,}, {bad_byte(error)}", _ways_out(raw)
            ) from error
        told(number, error)
        return raw.decode(errors="replace") if on_bad_utf8 == "replace" else None


def _ways_out(raw: bytes) -> str:
    """Returns what to do about a line that is not UTF-8. Its bytes do not tell which encoding it has: some can be
    excluded.
    """
    possible = [f"{name} ({script})" for name, script in LIKELY_ENCODINGS.items() if _could_be(raw, name)]
    if not possible:
        return "it is damaged, or not text; `on_bad_utf8=` says what becomes of single lines"
    return (
        "convert it from the encoding that it was written in, by `iconv -f ENCODING -t utf-8`; this line could be "
        f"{' or '.join(possible)}, which only who reads it can tell. `on_bad_utf8=` says what becomes of single lines"
    )


def _could_be(raw: bytes, encoding: str) -> bool:
    try:
        return raw.decode(encoding).isprintable()
    except UnicodeDecodeError:
        return False


def bad_byte(error: UnicodeDecodeError) -> str:
    """Returns which byte of a line is wrong, in words."""
    return f"byte {error.start + 1} is 0x{error.object[error.start]:02x}"


def read_pairs(src: str | Path, tgt: str | Path) -> Iterator[tuple[str, str]]:
    """Yields the lines of two files side by side. Raises DataError where they are empty or differ in length."""
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
    """Returns a sentence that says that two files differ in their number of lines: the shorter one first."""
    (few, shorter), (many, longer) = sorted(((sources, str(src)), (targets, str(tgt))))
    sizes = f"`{shorter}` has {few:,} and `{longer}` {many:,}"
    return f"`{src}` and `{tgt}` must have as many lines as each other, but {sizes}"


def fingerprint(path: str | Path) -> str:
    """Returns the SHA-256 of the file as it lies there; of a folder, that of its files' names and SHA-256."""
    if not Path(path).is_dir():
        return sha256_of(existing(Path(path)))
    files = sorted(file for file in Path(path).rglob("*") if file.is_file())
    table = "".join(f"{file.relative_to(path).as_posix()} {sha256_of(file)}\n" for file in files)
    return hashlib.sha256(table.encode()).hexdigest()


def origin(path: str | Path) -> str:
    """Returns a file's name in a message."""
    return "standard input" if str(path) == "-" else f"`{shown(Path(path))}`"


def raw_lines(file: BinaryIO, path: str | Path, most_bytes: int = MOST_LINE_BYTES, skip: int = 0) -> Iterator[bytes]:
    """Reads an open file, plain, gzip or Zstandard, as lines of bytes without their ends or a byte order mark.

    It is read once from where it stands, so that a pipe will do. `path` is for messages. The first `skip` lines, which
    somebody has read before, are passed over.

    Raises DataError where it is a broken compressed file or not UTF-8 by its beginning, or a line has more than
    `most_bytes`.
    """
    buffered = cast(io.BufferedReader, file) if hasattr(file, "peek") else io.BufferedReader(cast(io.RawIOBase, file))
    head = buffered.peek(4)
    lines: Any = buffered
    kind, broken = "gzip", tuple[type[Exception], ...]((EOFError, zlib.error, gzip.BadGzipFile))
    if head.startswith(GZIP_MAGIC):
        lines = gzip.GzipFile(fileobj=buffered)
    elif head.startswith(ZSTD_MAGIC):
        lines, kind, broken = zstd().ZstdFile(buffered), "Zstandard", (EOFError, zstd().ZstdError)
    number = 0
    try:
        _check_encoding(lines.peek(1 << 10), path)
        number = sum(1 for _ in islice(lines, skip))
        while raw := lines.readline(most_bytes + 1):
            number += 1
            if len(raw) > most_bytes:
                raise DataError(
                    f"{origin(path)}: line {number:,} has more than {most_bytes:,} bytes",
                    "is it text, with a sentence or a passage a line? Break the line into several",
                )
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            yield line if number > 1 else line.removeprefix(b"\xef\xbb\xbf")
    except broken as error:
        raise DataError(
            f"{origin(path)} is a damaged {kind} file after line {number:,}: {error}", "fetch it again"
        ) from error
    finally:
        if buffered is not file:
            buffered.detach()  # or the file would be closed with it


def standard_input() -> BinaryIO:
    """Returns standard input as bytes."""
    return sys.stdin.buffer


def _check_encoding(head: bytes, path: str | Path) -> None:
    """Raises DataError where a file begins as UTF-16 or UTF-32 do: with their mark, or with every other byte zero."""
    found = next((name for mark, name in OTHER_ENCODINGS.items() if head.startswith(mark)), None)
    for name, zeros in (("UTF-16BE", head[0::2]), ("UTF-16LE", head[1::2])):
        if found is None and len(head) > 3 and zeros.count(0) > 0.7 * len(zeros):
            found = name
    if found:
        name = "FILE" if str(path) == "-" else str(path)
        raise DataError(
            f"{origin(path)} is {found}, not UTF-8",
            f"convert it first: `iconv -f {found.lower()} -t utf-8 < {name} > {name}.utf8`",
        )


def existing(path: Path) -> Path:
    """Returns the path of a file. Raises DataError for a folder, and where there is nothing."""
    if path.is_dir():
        raise DataError(f"`{shown(path)}` is a folder, not a text file", "name the file in it")
    if not path.exists():
        raise DataError(f"no file `{shown(path)}`", "check the path; it is relative to the folder you are in")
    return path
