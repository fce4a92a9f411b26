"""Documents that are zip archives: read within a budget; members without translated text are written as they were."""

import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from pellucid.errors import DataError, format_value
from pellucid.files.budget import (
    LEAST_BOMB_BYTES,
    MOST_DOCUMENT_BYTES,
    MOST_DOCUMENT_MEMBERS,
    MOST_PART_BYTES,
    MOST_RATIO,
)

AGAIN = "save the document again in the program that made it"
PASSWORD = "save it without a password"


@dataclass
class Archive:
    """The members of a document, in their order."""

    infos: list[zipfile.ZipInfo]
    comment: bytes
    name: str
    data: dict[str, bytes] = field(default_factory=dict)

    def __contains__(self, member: str) -> bool:
        return member in self.data

    def get(self, member: str) -> bytes:
        """Returns the content of a member. Raises DataError if there is none."""
        if member not in self.data:
            raise DataError(f"`{format_value(self.name)}` has no part `{format_value(member)}`", AGAIN)
        return self.data[member]


def read_archive(data: bytes, name: str) -> Archive:
    """Returns the members of an archive. Raises DataError for a damaged, encrypted or excessive one."""
    shown = format_value(name)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            infos = file.infolist()
            _check_members(infos, shown)
            found = Archive(infos, file.comment, name)
            left = MOST_DOCUMENT_BYTES
            for info in infos:
                content = _read_member(file, info, left, shown)
                left -= len(content)
                found.data[info.filename] = content
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        if isinstance(error, DataError):
            raise
        reason = format_value(str(error))
        raise DataError(
            f"`{shown}` is a damaged archive: {reason}", "copy the document again, it may be cut off"
        ) from error
    return found


def _check_members(infos: list[zipfile.ZipInfo], shown: str) -> None:
    if len(infos) > MOST_DOCUMENT_MEMBERS:
        raise DataError(f"`{shown}` has {len(infos):,} members; at most {MOST_DOCUMENT_MEMBERS:,} are read", AGAIN)
    names, total, ends = set[str](), 0, 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        member = info.filename
        parts = member.replace("\\", "/").split("/")
        if member.startswith("/") or "\\" in info.orig_filename or ".." in parts or ":" in parts[0]:
            raise DataError(
                f"`{shown}` has the member `{format_value(member)}`, which leads out of it", "do not open it"
            )
        if member in names:
            raise DataError(f"`{shown}` has the member `{format_value(member)}` twice", AGAIN)
        names.add(member)
        if info.flag_bits & 0x41:
            raise DataError(f"`{shown}` is encrypted", PASSWORD)
        if info.header_offset < ends:
            raise DataError(f"`{shown}` has members that overlap", "do not open it")
        ends = info.header_offset + 30 + info.compress_size
        total += info.file_size
        if info.file_size > LEAST_BOMB_BYTES and info.file_size > MOST_RATIO * max(1, info.compress_size):
            raise DataError(
                f"the member `{format_value(member)}` of `{shown}` has {info.file_size:,} bytes, compressed to "
                f"{info.compress_size:,}: at most {MOST_RATIO} times as many are read",
                "save the document again, without its empty parts",
            )
        most = MOST_PART_BYTES if member.lower().endswith((".xml", ".xhtml", ".html", ".htm", ".opf", ".ncx")) else None
        if most and info.file_size > most:
            raise DataError(
                f"the member `{format_value(member)}` of `{shown}` has {info.file_size:,} bytes; at most {most:,} are "
                "read",
                "divide the document",
            )
    if total > MOST_DOCUMENT_BYTES:
        raise DataError(
            f"`{shown}` has {total:,} bytes of content; at most {MOST_DOCUMENT_BYTES:,} are read", "divide the document"
        )


def _read_member(file: zipfile.ZipFile, info: zipfile.ZipInfo, left: int, shown: str) -> bytes:
    with file.open(info) as member:
        content = member.read(min(info.file_size, left) + 1)
    if len(content) > info.file_size or len(content) > left:
        raise DataError(
            f"the member `{format_value(info.filename)}` of `{shown}` is larger than it says", "do not open it"
        )
    return content


def write_archive(archive: Archive, changed: Mapping[str, bytes]) -> bytes:
    """Returns the archive with some members replaced. Order, names, dates and compression methods do not change."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", allowZip64=True) as file:
        file.comment = archive.comment
        for info in archive.infos:
            copy = zipfile.ZipInfo(info.filename, info.date_time)
            copy.compress_type, copy.comment = info.compress_type, info.comment
            copy.external_attr, copy.internal_attr = info.external_attr, info.internal_attr
            copy.create_system, copy.create_version = info.create_system, info.create_version
            if info.filename.endswith("/"):
                file.writestr(copy, b"")
            else:
                file.writestr(copy, changed.get(info.filename, archive.data[info.filename]))
            copy.external_attr = info.external_attr  # zipfile sets permissions if there are none
    return out.getvalue()
