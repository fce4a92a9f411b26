"""gzip and Zstandard: reads Zstandard streams, and writes both formats so that equal bytes give an equal file."""

import gzip
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from pellucid.errors import DataError, format_install_command

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
AT_ONCE = 1 << 20


def zstd() -> Any:
    """Returns Python's module for Zstandard, or its backport for older Pythons. Raises DataError if it is missing."""
    try:
        return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError as error:
        raise DataError(
            "reading and writing Zstandard requires the extra `zst`", format_install_command("zst")
        ) from error


def compress(plain: Path, ending: str, compressed: Path) -> None:
    """Writes the content of a plain file as a gzip (".gz") or Zstandard (".zst") file, without a time or a name."""
    with plain.open("rb") as file, compressed.open("wb") as raw, writer(raw, ending) as target:
        shutil.copyfileobj(file, target, AT_ONCE)


def writer(file: BinaryIO, ending: str) -> Any:
    """Returns a stream that compresses into an open file, for ".gz" or ".zst". Raises DataError as `zstd` does."""
    if ending == ".gz":
        return gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
    return zstd().ZstdFile(file, "wb", level=3)
