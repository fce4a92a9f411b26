"""The parts of each kind of document that contain text, and the reader of each."""

import posixpath
import re
from collections.abc import Callable
from functools import partial

from pellucid.documents.archive import Archive
from pellucid.documents.book import choose_book_parts
from pellucid.documents.catalogue import read_catalogue
from pellucid.documents.drawings import read_drawing
from pellucid.documents.exchange import read_tmx, read_xliff
from pellucid.documents.json_values import read_json
from pellucid.documents.kinds import content_types
from pellucid.documents.lines_of_text import read_text
from pellucid.documents.markdown import read_markdown
from pellucid.documents.open_document_text import read_open_document
from pellucid.documents.properties import read_properties
from pellucid.documents.spans import Reading
from pellucid.documents.subtitles import read_subtitles, read_vtt
from pellucid.documents.web_pages import read_page
from pellucid.documents.word import NO_TEXT, read_word_part
from pellucid.documents.workbook import find_fixed, read_sheet, read_strings
from pellucid.documents.yaml_values import read_yaml

_DRAWINGS = (
    "presentationml.slide+xml", "presentationml.notesSlide+xml", "drawingml.chart+xml", "drawingml.diagramData+xml",
    "drawingml.diagramDrawing+xml", "officedocument.drawing+xml", "drawingml.chartshapes+xml",
)  # fmt: skip
"""The ends of the content types of parts with slides, notes, charts and diagrams."""
PartReader = Callable[[str, str, object], Reading]
"""Reads the text of a part, with its name for reports, and the choices of an earlier reading."""


def choose_parts(kind: str, archive: Archive) -> dict[str, PartReader]:
    """Returns the readers of the members of an archive that contain text."""
    if kind == "docx":
        read_word = partial(read_word_part, language=_main_language(archive, rb"<w:lang\b[^>]*?\bw:val=[\"']([\w-]+)"))
        return {
            member: read_word
            for member, found in content_types(archive).items()
            if ("wordprocessingml." in found or "ms-word." in found)
            and member.lower().endswith(".xml")
            and not any(f".{name}" in found or f"/{name}" in member for name in NO_TEXT)
        }
    if kind == "xlsx":
        return _workbook_parts(archive)
    if kind == "pptx":
        read_slide = partial(read_drawing, language=_main_language(archive, rb"\blang=[\"']([\w-]+)"))
        return {
            member: read_slide
            for member, found in content_types(archive).items()
            if found.endswith(_DRAWINGS) and member.lower().endswith(".xml")
        }
    if kind == "odt":
        language = _open_document_language(archive)
        members = [member for member in archive.data if posixpath.basename(member) in ("content.xml", "styles.xml")]
        return {member: partial(read_open_document, language=language) for member in members}
    assert kind == "epub", kind
    return dict(choose_book_parts(archive))


def _workbook_parts(archive: Archive) -> dict[str, PartReader]:
    found: dict[str, PartReader] = {}
    types = {member: kind for member, kind in content_types(archive).items() if member.lower().endswith(".xml")}
    sheets = [member for member, kind in types.items() if kind.endswith("spreadsheetml.worksheet+xml")]
    fixed = find_fixed(archive, sheets)
    for member, kind in types.items():
        if member in sheets:
            found[member] = partial(read_sheet, fixed=fixed)
        elif kind.endswith("spreadsheetml.sharedStrings+xml"):
            found[member] = partial(read_strings, fixed=fixed)
        elif kind.endswith(_DRAWINGS):
            found[member] = partial(read_drawing, language="")
    return found


def _open_document_language(archive: Archive) -> str:
    """Returns the language of the default style, else of the text; with its country."""
    pattern = rb"\bfo:language=[\"']([A-Za-z]{2,3})[\"'](?:[^<>]*?\bfo:country=[\"']([A-Za-z]{2})[\"'])?"
    for member in ("styles.xml", "content.xml"):
        if (match := re.search(pattern, archive.data.get(member, b""))) is not None:
            return "-".join(part.decode() for part in match.groups() if part)
    return ""


def _main_language(archive: Archive, pattern: bytes) -> str:
    """Returns the first language of the styles, else the most frequent one of the document; empty if there is none."""
    for name in sorted(archive.data, key=lambda name: not name.endswith("styles.xml")):
        if name.endswith(".xml") and (found := re.findall(pattern, archive.data[name])):
            first = found[0] if name.endswith("styles.xml") else max(set(found), key=found.count)
            return str(first.decode("ascii", "replace"))
    return ""


def text_reader(kind: str, is_xml: bool, encoding: str) -> PartReader:
    """Returns the reader of a document that is one text."""
    readers: dict[str, PartReader] = {
        "html": partial(read_page, is_xml=is_xml),
        "po": read_catalogue,
        "json": read_json,
        "srt": read_subtitles,
        "vtt": read_vtt,
        "txt": read_text,
        "md": read_markdown,
        "xliff": read_xliff,
        "tmx": read_tmx,
        "yaml": read_yaml,
        "properties": partial(read_properties, is_ascii=True if encoding == "latin-1" else None),
    }
    return readers[kind]
