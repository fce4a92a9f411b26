"""Lines of text files, plain, gzip or Zstandard: UTF-8, ended by LF or CR LF only."""

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, cast

from pellucid.config.data import OnBadUtf8
from pellucid.data.issues import IssueCallback
from pellucid.errors import DataError, format_value
from pellucid.files.budget import MOST_LINE_BYTES
from pellucid.files.compression import GZIP_MAGIC, ZSTD_MAGIC, zstd
from pellucid.files.encodings import likely_encodings
from pellucid.files.reading import hash_file

# In this order: the first mark begins with the third.
OTHER_ENCODINGS = {
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip

PARALLEL = "line n of one file must be the translation of line n of the other"

DecodeErrorCallback = Callable[[int, UnicodeDecodeError], object]
"""Callback for undecodable lines: called with the line number and the `UnicodeDecodeError`."""


def read_lines(path: str | Path) -> Iterator[str]:
    """Yields the lines of a text file, or of standard input for "-", without line ends and byte order mark.

    Raises DataError for a missing file, a folder, a damaged gzip file, UTF-16, and for a line that is not UTF-8 (with
    the line and the byte).
    """
    for line in read_lines_lenient(path, "error", lambda *_: None):
        assert line is not None
        yield line


def read_lines_lenient(
    path: str | Path,
    on_bad_utf8: OnBadUtf8,
    told: DecodeErrorCallback,
    skip: int = 0,
    most_bytes: int = MOST_LINE_BYTES,
) -> Iterator[str | None]:
    """Yields the lines as `read_lines` does, but a line that is not UTF-8 with U+FFFD for its invalid bytes, or as
    None; `told` is called for it. The first `skip` lines are skipped.
    """
    file = open_stdin() if str(path) == "-" else check_text_file(Path(path)).open("rb")
    try:
        for number, raw in enumerate(read_raw_lines(file, path, most_bytes, skip), start=skip + 1):
            yield decode_line(raw, number, path, on_bad_utf8, told)
    finally:
        if str(path) != "-":
            file.close()


def decode_line(
    raw: bytes, number: int, path: str | Path, on_bad_utf8: OnBadUtf8, told: DecodeErrorCallback
) -> str | None:
    """Returns the text of a line; a line that is not UTF-8 is handled by `on_bad_utf8`, and `told` is called.

    Raises DataError, with the line and the byte, if `on_bad_utf8` is "error".
    """
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        if on_bad_utf8 == "error":
            raise DataError(
                f"{format_display_name(path)} is not UTF-8: line {number:,}, {describe_bad_byte(error)}", _ways_out(raw)
            ) from error
        told(number, error)
        return raw.decode(errors="replace") if on_bad_utf8 == "replace" else None


def _ways_out(raw: bytes) -> str:
    """Returns the remedies for a line that is not UTF-8."""
    likely = likely_encodings(raw)
    if not likely:
        return "the file is damaged or not text; `on_bad_utf8=` selects how such lines are handled"
    encoding = likely[0].encoding.name if len(likely) == 1 else "ENCODING"
    texts = " or ".join(f"`{format_value(each.text.strip())}`" for each in likely)
    return (
        f"convert it from its encoding with `iconv -f {encoding} -t utf-8`; this line could be "
        f"{guess_encodings(raw)}; choose the encoding that reads correctly: {texts}. `on_bad_utf8=` selects how such "
        "lines are handled"
    )


def guess_encodings(raw: bytes) -> str:
    """Returns the possible encodings of bytes that are not UTF-8; empty if none fits."""
    return " or ".join(f"{each.encoding.name} ({each.encoding.language})" for each in likely_encodings(raw))


def describe_bad_byte(error: UnicodeDecodeError) -> str:
    """Returns a description of the first invalid byte of a line."""
    return f"byte {error.start + 1} is 0x{error.object[error.start]:02x}"


def note_bytes(path: str, note: IssueCallback) -> DecodeErrorCallback:
    """Returns a callback that reports lines that are not UTF-8, the first one with its possible encodings."""
    is_first = True

    def report_first(number: int, error: UnicodeDecodeError) -> None:
        nonlocal is_first
        likely = guess_encodings(error.object) if is_first else ""
        note("utf8", path, number, describe_bad_byte(error) + (f"; it could be {likely}" if likely else ""))
        is_first = False

    return report_first


def read_pairs(src: str | Path, tgt: str | Path) -> Iterator[tuple[str, str]]:
    """Yields the lines of two files in pairs. Raises DataError if they are empty or differ in length."""
    count = 0
    pairs = zip_longest(read_lines(src), read_lines(tgt))
    for source, target in pairs:
        if source is None or target is None:
            total = count + 1 + sum(1 for _ in pairs)
            counts = (count, total) if source is None else (total, count)
            raise DataError(describe_length_mismatch(src, tgt, *counts), PARALLEL)
        count += 1
        yield source, target
    if count == 0:
        raise DataError(f"`{src}` and `{tgt}` are empty", "use two files with one sentence per line")


def describe_length_mismatch(src: str | Path, tgt: str | Path, sources: int, targets: int) -> str:
    """Returns a message about two files with different numbers of lines, the shorter file first."""
    (few, shorter), (many, longer) = sorted(((sources, str(src)), (targets, str(tgt))))
    sizes = f"`{shorter}` has {few:,} and `{longer}` {many:,}"
    return f"`{src}` and `{tgt}` must have the same number of lines, but {sizes}"


def hash_path(path: str | Path) -> str:
    """Returns the SHA-256 of a file's bytes; for a folder, that of its files' names and SHA-256."""
    if not Path(path).is_dir():
        return hash_file(check_text_file(Path(path)))
    files = sorted(file for file in Path(path).rglob("*") if file.is_file())
    table = "".join(f"{file.relative_to(path).as_posix()} {hash_file(file)}\n" for file in files)
    return hashlib.sha256(table.encode()).hexdigest()


def format_display_name(path: str | Path) -> str:
    """Returns a file's name in a message."""
    return "standard input" if str(path) == "-" else f"`{format_value(Path(path))}`"


def read_raw_lines(
    file: BinaryIO, path: str | Path, most_bytes: int = MOST_LINE_BYTES, skip: int = 0
) -> Iterator[bytes]:
    """Reads an open file, plain, gzip or Zstandard, as lines of bytes without line ends and byte order mark.

    The file is read once from its current position, so that it may be a pipe. `path` is for messages. The first `skip`
    lines, which were read before, are skipped.

    Raises DataError for a damaged compressed file, a file that does not begin as UTF-8, or a line of more than
    `most_bytes`.
    """
    number = 0
    with decompress(file, path, lambda: f"after line {number:,}") as lines:
        _check_encoding(lines.peek(1 << 10), path)
        number = sum(1 for _ in islice(lines, skip))
        while raw := lines.readline(most_bytes + 1):
            number += 1
            if len(raw) > most_bytes:
                raise DataError(
                    f"{format_display_name(path)}: line {number:,} has more than {most_bytes:,} bytes",
                    "check that the file holds text, one sentence or passage per line, and split the line",
                )
            if number == 1 and not raw.endswith(b"\n") and raw.count(b"\r") > 1:
                name = "FILE" if str(path) == "-" else str(path)
                raise DataError(
                    f"{format_display_name(path)} ends its lines with CR alone, as old Macintosh programs do",
                    f"convert it first: `tr '\\r' '\\n' < {name} > {name}.lf`",
                )
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            yield line if number > 1 else line.removeprefix(b"\xef\xbb\xbf")


@contextmanager
def decompress(file: BinaryIO, path: str | Path, place: Callable[[], str]) -> Iterator[Any]:
    """Yields the decompressed content of an open file, from its current position, as a stream with `peek`, `read` and
    `readline`.

    Raises DataError for a damaged compressed file, with the place of the damage.
    """
    buffered = cast(io.BufferedReader, file) if hasattr(file, "peek") else io.BufferedReader(cast(io.RawIOBase, file))
    head = buffered.peek(4)
    plain: Any = buffered
    kind, broken = "gzip", tuple[type[Exception], ...]((EOFError, zlib.error, gzip.BadGzipFile))
    if head.startswith(GZIP_MAGIC):
        plain = gzip.GzipFile(fileobj=buffered)
    elif head.startswith(ZSTD_MAGIC):
        plain, kind, broken = zstd().ZstdFile(buffered), "Zstandard", (EOFError, zstd().ZstdError)
    try:
        yield plain
    except broken as error:
        raise DataError(
            f"{format_display_name(path)} is a damaged {kind} file {place()}: {error}", "download it again"
        ) from error
    finally:
        if buffered is not file:
            buffered.detach()  # otherwise the file would be closed with it


def open_stdin() -> BinaryIO:
    """Returns standard input as bytes."""
    return sys.stdin.buffer


def _check_encoding(head: bytes, path: str | Path) -> None:
    """Raises DataError if a file begins as UTF-16 or UTF-32: with a byte order mark, or with every other byte zero."""
    found = next((name for mark, name in OTHER_ENCODINGS.items() if head.startswith(mark)), None)
    for name, zeros in (("UTF-16BE", head[0::2]), ("UTF-16LE", head[1::2])):
        if found is None and len(head) > 3 and zeros.count(0) > 0.7 * len(zeros):
            found = name
    if found:
        name = "FILE" if str(path) == "-" else str(path)
        raise DataError(
            f"{format_display_name(path)} is {found}, not UTF-8",
            f"convert it first: `iconv -f {found.lower()} -t utf-8 < {name} > {name}.utf8`",
        )


def check_text_file(path: Path) -> Path:
    """Returns the path of a file. Raises DataError for a folder and for a missing file."""
    if path.is_dir():
        raise DataError(f"`{format_value(path)}` is a folder, not a text file", "name the file in it")
    if not path.exists():
        raise DataError(
            f"no file `{format_value(path)}`", "check the path; a relative path starts at the current directory"
        )
    return path
