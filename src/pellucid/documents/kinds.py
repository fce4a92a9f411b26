"""The kinds of documents: by the content, and by the ending of the name; both are named if they differ."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pellucid.documents.archive import AGAIN, PASSWORD, Archive
from pellucid.documents.markup import check_xml, decode_bytes, iterate_elements
from pellucid.errors import DataError, format_value
from pellucid.files.formats import HEAD, detect_format

ENDINGS: Mapping[str, str] = MappingProxyType(
    {
        ".docx": "docx", ".docm": "docx", ".dotx": "docx", ".xlsx": "xlsx", ".xlsm": "xlsx", ".pptx": "pptx",
        ".pptm": "pptx", ".ppsx": "pptx", ".odt": "odt", ".ott": "odt", ".epub": "epub", ".html": "html",
        ".htm": "html", ".xhtml": "html",
        ".md": "md", ".markdown": "md", ".txt": "txt", ".text": "txt", ".po": "po", ".pot": "po",
        ".xliff": "xliff", ".xlf": "xliff", ".tmx": "tmx", ".json": "json", ".yaml": "yaml", ".yml": "yaml",
        ".properties": "properties", ".srt": "srt", ".vtt": "vtt",
    }
)  # fmt: skip
"""The kind of document by the ending of a name, in lower case."""
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "docx": "a Word document", "xlsx": "an Excel workbook", "pptx": "a PowerPoint presentation",
        "odt": "an OpenDocument text", "epub": "an EPUB book", "html": "an HTML page", "md": "a Markdown document",
        "txt": "a plain text", "po": "a gettext catalogue", "xliff": "an XLIFF document",
        "tmx": "a translation memory (TMX)", "json": "a JSON document", "yaml": "a YAML document",
        "properties": "a file of properties", "srt": "a file of subtitles (SubRip)",
        "vtt": "a file of subtitles (WebVTT)",
    }
)  # fmt: skip
"""The names of the kinds, for messages, as in `files/formats.py`."""
ARCHIVES = frozenset({"docx", "xlsx", "pptx", "odt", "epub"})
MARKUP = frozenset({"html", "xliff", "tmx"})
_MAIN = {"wordprocessingml": "docx", "spreadsheetml": "xlsx", "presentationml": "pptx"}
_MIMES = {
    "application/epub+zip": "epub", "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.text-template": "odt",
}  # fmt: skip
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BY_NAME = {name: kind for kind, name in NAMES.items()}


def kind_by_name(path: str | Path) -> str:
    """Returns the kind of document by the ending of its name; empty if it is none."""
    return ENDINGS.get(Path(path).suffix.lower(), "")


def is_document(path: str | Path) -> bool:
    """Returns True if a name has the ending of a document."""
    return bool(kind_by_name(path))


def check_kind(path: Path, data: bytes) -> str:
    """Returns the kind of a document by its name, after a look at its first bytes.

    Raises DataError for another kind of content, and an encrypted document.
    """
    kind, shown = kind_by_name(path), format_value(path)
    if data.startswith(OLE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise DataError(f"`{shown}` is encrypted", PASSWORD)
        raise DataError(
            f"`{shown}` is an Office document of the formats before 2007{_expected(kind)}",
            "save it as .docx, .xlsx or .pptx in the program that made it",
        )
    if not kind:
        raise DataError(f"`{shown}` does not have the name ending of a document", f"documents: {', '.join(ENDINGS)}")
    if kind in ARCHIVES:
        if not data.startswith(b"PK"):
            found = detect_format("", data[:HEAD])
            named = f"is {found.name}" if found else "is not a zip archive" if data else "is empty"
            raise DataError(f"`{shown}` {named}{_expected(kind)}", "rename it, or save it again")
        return kind
    found = detect_format("", data[:HEAD])
    if found is not None and _BY_NAME.get(found.name) != kind and not (kind == "yaml" and found.name == NAMES["po"]):
        raise DataError(f"`{shown}` is {found.name}{_expected(kind)}", "rename it")
    return kind


def check_archive_kind(path: Path, kind: str, archive: Archive) -> None:
    """Raises DataError if an archive is of another kind than its name says, or is encrypted."""
    shown = format_value(path)
    mime = archive.data.get("mimetype", b"").decode("ascii", "replace").strip()
    if mime and (found := _MIMES.get(mime, "")) != kind:
        named = NAMES.get(found) or f"of the type `{format_value(mime)}`"
        raise DataError(f"`{shown}` is {named}{_expected(kind)}", "rename it")
    if kind in ("odt", "epub"):
        manifest = archive.data.get("META-INF/manifest.xml", b"")
        if kind == "odt" and b"encryption-data" in manifest:
            raise DataError(f"`{shown}` is encrypted", PASSWORD)
        if kind == "odt":
            archive.get("content.xml")
        elif not mime:
            archive.get("META-INF/container.xml")
        return
    found = _MAIN.get(main_type(archive), "")
    if found != kind:
        raise DataError(f"`{shown}` is {NAMES.get(found, 'another archive')}{_expected(kind)}", "rename it")


def content_types(archive: Archive) -> dict[str, str]:
    """Returns the content type of each member of an Office document. Raises DataError if they are not stated."""
    text, _ = decode_bytes(archive.get("[Content_Types].xml"), "[Content_Types].xml")
    check_xml(text, "[Content_Types].xml")
    defaults, found = dict[str, str](), dict[str, str]()
    for node in iterate_elements(text, lambda name: name.rpartition(":")[2] in ("Default", "Override")):
        if node.name.endswith("Default"):
            defaults[node.get("Extension").lower()] = node.get("ContentType")
        else:
            found[node.get("PartName").lstrip("/").lower()] = node.get("ContentType")
    return {
        member: found.get(member.lower(), defaults.get(member.rpartition(".")[2].lower(), ""))
        for member in archive.data
    }


def main_type(archive: Archive) -> str:
    """Returns the family of an Office document: wordprocessingml, spreadsheetml or presentationml."""
    for kind in content_types(archive).values():
        for family in _MAIN:
            if f"{family}." in kind and ".main+xml" in kind:
                return family
            if "macroEnabled.main+xml" in kind or "ms-word" in kind or "ms-excel" in kind or "ms-powerpoint" in kind:
                for word, known in (
                    ("word", "wordprocessingml"),
                    ("excel", "spreadsheetml"),
                    ("powerpoint", "presentationml"),
                ):
                    if f"ms-{word}" in kind and "main+xml" in kind:
                        return known
    if "[Content_Types].xml" not in archive.data:
        raise DataError(f"`{format_value(archive.name)}` has no list of its parts", AGAIN)
    return ""


def _expected(kind: str) -> str:
    return f", but its name is that of {NAMES[kind]}" if kind else ""
