"""Extracts named texts from a tar archive. No path in the archive determines where a file is written."""

import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from pellucid.data.download_cache import record_sha256
from pellucid.data.transfer import convert_cache_write_errors
from pellucid.errors import format_value
from pellucid.files.reading import hash_file

MOST_UNPACKED = 2**31
"""Bytes of an unpacked archive: an archive without a published checksum is untrusted."""
MOST_LINE = 2**20
"""Bytes of a line in a member *.sgm."""
MOST_NAME = 2**16
"""Bytes of a member's name and attributes."""

_SEGMENT = re.compile(rb"<seg[^>]*>(.*)</seg>")


class ArchiveError(Exception):
    """Raised if a file is not the expected archive, with a description of the file."""


class _ArchiveMember(tarfile.TarInfo):
    """A member whose name is read into memory only if its length is plausible."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        """Returns the member whose header was read. Raises ArchiveError if its name is too long.

        Here Python proceeds from a header to the data that it describes. (`frombuf` is not called by all versions.)
        """
        if self.type in _NAMES and self.size > MOST_NAME:
            raise ArchiveError(f"an archive that has a name of {self.size:,} bytes; at most {MOST_NAME:,} are read")
        found: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return found


_NAMES = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


def unpack(archive: Path, texts: Mapping[Path, str]) -> None:
    """Writes each member that `texts` names to its path there, atomically, with its checksum next to it.

    Members are read in order, so that the archive is decompressed once. A member *.sgm becomes plain text: its
    segments, one per line, as sacreBLEU reads them.

    Raises ArchiveError if the archive is damaged or lacks a member, DataError if a text cannot be written.
    """
    missing = {member: path for path, member in texts.items()}
    try:
        with tarfile.open(archive, tarinfo=_ArchiveMember) as tar:
            while missing and (info := tar.next()):
                if info.offset_data + info.size > MOST_UNPACKED:
                    raise ArchiveError(f"an archive of more than {MOST_UNPACKED:,} bytes, unpacked")
                file = tar.extractfile(info) if info.isreg() and info.name in missing else None
                if file is not None:
                    _write(missing.pop(info.name), _segments(file) if info.name.endswith(".sgm") else _blocks(file))
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
        raise ArchiveError(f"an incomplete archive ({format_value(str(error))})") from error
    if missing:
        raise ArchiveError(f"an archive without `{next(iter(missing))}`")


def _write(path: Path, blocks: Iterator[bytes]) -> None:
    temporary = path.with_name(f".{path.name}.partial")
    with convert_cache_write_errors(path):
        with temporary.open("wb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        record_sha256(path, hash_file(path))


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(1 << 20):
        yield block


def _segments(file: IO[bytes]) -> Iterator[bytes]:
    """Yields the content of the <seg> of each line, with single spaces."""
    while line := file.readline(MOST_LINE):
        if segment := _SEGMENT.match(line):
            yield b" ".join(segment[1].split()) + b"\n"
