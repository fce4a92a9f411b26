"""Takes named texts out of a tar archive. Nothing in the archive decides where something is written."""

import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from pellucid.data.cache import record_sha256
from pellucid.data.transfer import writing
from pellucid.errors import shown
from pellucid.files.reading import sha256_of

MOST_UNPACKED = 2**31
"""Bytes of an archive, unpacked. Where nobody has published a checksum, anything may have come."""
MOST_LINE = 2**20
"""Bytes of a line in a member *.sgm."""
MOST_NAME = 2**16
"""Bytes of a member's name and attributes."""

_SEGMENT = re.compile(rb"<seg[^>]*>(.*)</seg>")


class ArchiveError(Exception):
    """Raised with what a file is instead of the archive that it should be."""


class _Member(tarfile.TarInfo):
    """A member whose name is read into memory only where it is a name."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        """Returns the member whose header was read. Raises ArchiveError where its name is longer than any is.

        This is where Python goes on from a header to what it says. (`frombuf` is not called by all versions.)
        """
        if self.type in _NAMES and self.size > MOST_NAME:
            raise ArchiveError(f"an archive with a name of {self.size:,} bytes; at most {MOST_NAME:,} are read")
        found: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return found


_NAMES = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


def unpack(archive: Path, texts: Mapping[Path, str]) -> None:
    """Writes each member that `texts` names to its path there, in one piece, with its checksum beside it.

    Members are read one after another, so that the archive is decompressed once. A member *.sgm becomes plain text: its
    segments, one a line, as sacreBLEU reads them.

    Raises ArchiveError where the archive is damaged or lacks a member, DataError where a text cannot be written.
    """
    missing = {member: path for path, member in texts.items()}
    try:
        with tarfile.open(archive, tarinfo=_Member) as tar:
            while missing and (info := tar.next()):
                if info.offset_data + info.size > MOST_UNPACKED:
                    raise ArchiveError(f"an archive of more than {MOST_UNPACKED:,} bytes, unpacked")
                file = tar.extractfile(info) if info.isreg() and info.name in missing else None
                if file is not None:
                    _write(missing.pop(info.name), _segments(file) if info.name.endswith(".sgm") else _blocks(file))
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
        raise ArchiveError(f"no whole archive ({shown(str(error))})") from error
    if missing:
        raise ArchiveError(f"an archive without `{next(iter(missing))}`")


def _write(path: Path, blocks: Iterator[bytes]) -> None:
    temporary = path.with_name(f".{path.name}.partial")
    with writing(path):
        with temporary.open("wb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        record_sha256(path, sha256_of(path))


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(1 << 20):
        yield block


def _segments(file: IO[bytes]) -> Iterator[bytes]:
    """Yields what stands in the <seg> of each line, with single spaces."""
    while line := file.readline(MOST_LINE):
        if segment := _SEGMENT.match(line):
            yield b" ".join(segment[1].split()) + b"\n"
