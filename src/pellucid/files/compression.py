"""Zstandard beside gzip: streams of it read, and files of either written so that equal bytes make an equal file."""

import gzip
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from pellucid.errors import DataError, install

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
AT_ONCE = 1 << 20


def zstd() -> Any:
    """Returns Python's module for Zstandard, of which older Pythons have a backport. Raises DataError where it is
    missing.
    """
    try:
        return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError as error:
        raise DataError("reading and writing Zstandard needs the extra `zst`", install("zst")) from error


def compress(plain: Path, ending: str, compressed: Path) -> None:
    """Writes what a plain file holds as a gzip file (".gz") or a Zstandard file (".zst"), without a time or a name."""
    with plain.open("rb") as file, compressed.open("wb") as raw, writer(raw, ending) as target:
        shutil.copyfileobj(file, target, AT_ONCE)


def writer(file: BinaryIO, ending: str) -> Any:
    """Returns a stream that compresses into an open file, for ".gz" or ".zst". Raises DataError as `zstd` does."""
    if ending == ".gz":
        return gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
    return zstd().ZstdFile(file, "wb", level=3)
