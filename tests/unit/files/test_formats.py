"""Formats of files: recognised by their first bytes, or by an ending that is no language's code."""

import io
import os
import zipfile
from pathlib import Path

import pytest

from pellucid.files.formats import FORMATS, HEAD, detect_format


def archive(*members: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in members:
            zipped.writestr(name, "application/epub+zip" if name == "mimetype" else "<x/>", zipfile.ZIP_STORED)
    return file.getvalue()


CONTENTS = {
    "a Word document": archive("[Content_Types].xml", "_rels/.rels", "word/document.xml"),
    "a PowerPoint presentation": archive("[Content_Types].xml", "ppt/presentation.xml"),
    "an Excel workbook": archive("[Content_Types].xml", "xl/workbook.xml"),
    "an EPUB book": archive("mimetype", "META-INF/container.xml"),
    "a zip archive": archive("Books.de-en.de", "Books.de-en.en"),
    "an Office document": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1rest",
    "a PDF document": b"%PDF-1.7\n",
    "an RTF document": b"{\\rtf1 text}",
    "an HTML page": b"\xef\xbb\xbf<!-- x -->\n<!DOCTYPE html>\n<html>",
    "a gettext catalogue": b'# German\n#, fuzzy\nmsgid ""\nmsgstr ""\n',
    "an XLIFF document": b'<?xml version="1.0"?>\n<!DOCTYPE xliff [<!ENTITY a "b">]>\n<xliff version="1.2">',
    "a translation memory (TMX)": b'<?xml version="1.0"?><tmx version="1.4">',
    "a file of subtitles (SubRip)": b"\xef\xbb\xbf1\r\n00:00:01,000 --> 00:00:03,000\r\nHund\r\n",
    "a file of subtitles (WebVTT)": b"WEBVTT - Kinder\n\n",
    "a file compressed by bzip2": b"BZh91AY&SY",
    "a file compressed by xz": b"\xfd7zXZ\0\0",
    "a Parquet file": b"PAR1",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_format_is_recognised_by_its_first_bytes(name: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(CONTENTS[name])
    for found in (detect_format("-", CONTENTS[name]), detect_format(tmp_path / "data")):
        assert found is not None
        assert found.name == name


@pytest.mark.parametrize(
    ("path", "head", "name"),
    [
        ("x.PDF", b"", "a PDF document"),
        ("x.md", b"# A\n", "a Markdown document"),
        ("x.csv", b"a,b\n", "a table of comma-separated values"),
        ("x.docx", b"PK\x03\x04cut", "a Word document"),
        ("x.docx", b"\xd0\xcf\x11\xe0encrypted", "a Word document"),
        ("x.docx", b"<html>", "an HTML page"),
        ("x.docx", b"lines of text\n", ""),
        ("OpenSubtitles.srt", b"Sauri is a language\n", ""),
        ("Bible.odt", b"and so is Old Dutch\n", ""),
        ("Bible.pot", b"and Potawatomi\n", ""),
        ("x.txt", b"1\nof two lines\n", ""),
        ("x.de", b"<b>Ein</b> <html> Hund\n", ""),
        ("x.gz", b"\x1f\x8b\x08", ""),
    ],
)
def test_an_ending_decides_where_the_content_agrees(path: str, head: bytes, name: str) -> None:
    found = detect_format(path, head)
    assert (found.name if found else "") == name


def test_a_pipe_and_a_missing_file_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pdf")
    for path in (tmp_path / "pipe.pdf", tmp_path / "none.pdf"):
        found = detect_format(path)
        assert found is not None
        assert found.name == "a PDF document"
    assert detect_format(tmp_path / "none.txt") is None


@pytest.mark.parametrize(
    "piece",
    [
        b" ", b"\n", b"#\n", b"<!--", b"<!-- -->", b"<!doctype [", b"<!doctype tmx>", b"<!doctype x [ ]>\n", b"msgid",
        b"PK\x03\x04", b"1", b"<?xml ?>", b"# x\n \n", b"#: a\nmsgid x\n",
    ],
)  # fmt: skip
def test_no_content_makes_a_pattern_backtrack_without_end(piece: bytes) -> None:
    """A pattern that tried every way to cut these bytes would not end."""
    for each in FORMATS:
        detect_format(f"x{each.endings[0]}", (piece * HEAD)[:HEAD])
