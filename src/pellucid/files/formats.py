"""The file formats of users that are not lines of text: how each is recognized, and how it is converted.

The readers of corpora and the commands for lines of text all reject files by this table. A format is recognized by its
first bytes, or by its name if these are ambiguous. A file's name can also end in a language code (`OpenSubtitles.srt`
may be Sauri): an ending that is a code counts only together with the first bytes.
"""

import re
import stat
from dataclasses import dataclass
from pathlib import Path

HEAD = 4096
"""Bytes from a file's beginning that are examined."""

_ZIP = re.compile(rb"PK\x03\x04")
_OFFICE = re.compile(rb"PK\x03\x04|\xd0\xcf\x11\xe0")
"""A zip archive, or the container around an encrypted one."""
_ANY = re.compile(b"")
_COMMENT = rb"<!--(?:(?!-->).)*-->\s*"
_DOCTYPE = rb"<!doctype[^>\[]*(?:\[[^\]]*\][^>]*)?>\s*"
"""Matches in one way only: with two, many declarations would take exponential time."""
_MARK = rb"(?:\xef\xbb\xbf)?\s*"


@dataclass(frozen=True)
class Format:
    """A format of files.

    `first` must match the beginning of a file whose name has one of the `endings`. `certain` recognizes the format by
    content alone, if no ending does.
    """

    name: str
    """With its article, for messages: "a Word document"."""
    endings: tuple[str, ...]
    to_text: str
    """The conversion to plain text, as an imperative."""
    to_pairs: str = ""
    """The conversion to a parallel corpus; if empty, through plain text."""
    first: re.Pattern[bytes] = _ANY
    certain: re.Pattern[bytes] | None = None
    is_corpus: bool = False
    """True if Pellucid reads pairs from it."""
    is_lines: bool = False
    """True if each line is a text, so that two such files can be the sides of a corpus."""
    is_text: bool = False
    """True if its bytes are readable text, on which a language model may be trained."""


def _certain(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(_MARK + pattern, re.IGNORECASE | re.DOTALL)


_SUBRIP = _certain(rb"\d+[ \t]*\r?\n\d+:\d\d:\d\d[,.]\d+[ \t]+-->")
_SAVE = "save it as plain text (UTF-8) in the program that made it, or convert it by pandoc or LibreOffice"
_SHEET = 'save the sheet as tab-separated text, UTF-8 ("Unicode text" or .tsv)'
_ALIGNED = (
    "a corpus needs the translation of each line: align the sentences of both files first, with hunalign or vecalign"
)

FORMATS: tuple[Format, ...] = (
    Format(
        "a Word document", (".docx", ".docm", ".dotx"), _SAVE, _ALIGNED,
        _OFFICE, re.compile(rb"PK\x03\x04.*PK\x03\x04.{26}word/", re.DOTALL),
    ),
    Format(
        "a PowerPoint presentation", (".pptx", ".pptm", ".ppsx"), _SAVE, _ALIGNED,
        _OFFICE, re.compile(rb"PK\x03\x04.*PK\x03\x04.{26}ppt/", re.DOTALL),
    ),
    Format(
        "an Excel workbook", (".xlsx", ".xlsm"), _SHEET, f"{_SHEET}, with the source and the target in columns",
        _OFFICE, re.compile(rb"PK\x03\x04.*PK\x03\x04.{26}xl/", re.DOTALL),
    ),
    Format(
        "an OpenDocument text", (".odt", ".ott"), _SAVE, _ALIGNED, _OFFICE,
        re.compile(rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis\.opendocument\.text", re.DOTALL),
    ),
    Format(
        "an OpenDocument spreadsheet", (".ods",), _SHEET, f"{_SHEET}, with the source and the target in columns",
        _OFFICE, re.compile(rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis\.opendocument\.spreadsheet", re.DOTALL),
    ),
    Format(
        "an OpenDocument presentation", (".odp",), _SAVE, _ALIGNED, _OFFICE,
        re.compile(rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis\.opendocument\.presentation", re.DOTALL),
    ),
    Format(
        "an EPUB book", (".epub",), _SAVE, _ALIGNED, _ANY,
        re.compile(rb"PK\x03\x04.{26}mimetypeapplication/epub\+zip", re.DOTALL),
    ),
    Format(
        "an Office document", (".doc", ".xls", ".ppt"),
        "save it as .docx, .xlsx or .pptx, or as plain text (UTF-8), in the program that made it",
        _ALIGNED, re.compile(rb"\xd0\xcf\x11\xe0"),
        re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1|PK\x03\x04.{26}\[Content_Types\]\.xml", re.DOTALL),
    ),
    Format(
        "an RTF document", (".rtf",), _SAVE, _ALIGNED, re.compile(rb"\{\\rtf"), re.compile(rb"\{\\rtf"), is_text=True,
    ),
    Format(
        "a PDF document", (".pdf",), "export it as .docx or .odt, or extract its text by `pdftotext`, and write one "
        "sentence per line", _ALIGNED, _ANY,
        re.compile(rb"\s*%PDF-"),
    ),
    Format(
        "an image", (".png", ".jpg", ".jpeg", ".gif", ".webp", ".tif", ".tiff", ".bmp"),
        "recognize its text by a program such as Tesseract first", "",
        re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF.{4}WEBP|II\*\0|MM\0\*|BM", re.DOTALL),
        re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff[\xe0-\xef\xdb]|GIF8[79]a|RIFF.{4}WEBP", re.DOTALL),
    ),
    Format(
        "an HTML page", (".html", ".htm", ".xhtml"), "extract its text by `pandoc -t plain --wrap=none`", _ALIGNED,
        _ANY, _certain(rb"(?:<\?xml[^>]*>\s*)?(?:" + _COMMENT + rb")*(?:<!doctype\s+html|<html[\s>])"), is_text=True,
    ),
    Format(
        "a Markdown document", (".md", ".markdown"),
        "rename it to .txt if it is plain text, or extract its text by `pandoc -t plain --wrap=none`", _ALIGNED,
        is_text=True,
    ),
    Format(
        "a gettext catalogue", (".po", ".pot"), "write its `msgid` texts into a text file, one per line",
        "convert it to TMX by `po2tmx -l LANGUAGE` of the Translate Toolkit; the TMX file holds both sides",
        re.compile(rb".*?^msg(?:id|ctxt)[ \t]+\"|\s*#", re.DOTALL | re.MULTILINE),
        re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|#[^\n]*\n)*msg(?:id|ctxt)[ \t]+\""), is_text=True,
    ),
    Format(
        "an XLIFF document", (".xliff", ".xlf", ".sdlxliff", ".mxliff", ".mqxliff"),
        "export its source texts as plain text from the CAT tool",
        "export it as TMX from the CAT tool, or convert it by `xliff2po` and `po2tmx` of the Translate Toolkit",
        _ANY, _certain(rb"(?:<\?xml[^>]*>\s*)?(?:" + _COMMENT + rb"|" + _DOCTYPE + rb")*<xliff[\s>]"), is_text=True,
    ),
    Format(
        "a file of subtitles (SubRip)", (".srt",),
        "write the texts without numbers and times into a text file, one sentence per line",
        "align the subtitles of both languages first, by their times, and give the texts alone, a line for each",
        _SUBRIP, _SUBRIP, is_text=True,
    ),
    Format(
        "a file of subtitles (WebVTT)", (".vtt",),
        "write the texts without times into a text file, one sentence per line",
        "align the subtitles of both languages first, by their times, and give the texts alone, a line for each",
        re.compile(rb"(?:\xef\xbb\xbf)?WEBVTT"), re.compile(rb"(?:\xef\xbb\xbf)?WEBVTT(?=[ \t\r\n]|$)"), is_text=True,
    ),
    Format(
        "a translation memory (TMX)", (".tmx", ".tmx.gz"), "export its source texts as plain text",
        is_corpus=True, certain=_certain(rb"(?:<\?xml[^>]*>\s*)?(?:" + _COMMENT + rb"|" + _DOCTYPE + rb")*<tmx[\s>]"),
        is_text=True,
    ),
    Format(
        "a JSON document", (".json",), "write its texts into a text file, one per line",
        "write an object on each line of a file that ends in .jsonl: `jq -c '.[]' FILE.json > FILE.jsonl`",
        re.compile(_MARK + rb"[\[{\"]"), is_text=True,
    ),
    Format(
        "a file of JSON lines", (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson"),
        "write its texts into a text file, one per line: `jq -r .text FILE.jsonl > FILE.txt`",
        is_corpus=True, is_lines=True,
    ),
    Format("a YAML document", (".yaml", ".yml"), "write its texts into a text file, one per line", is_text=True),
    Format("a file of properties", (".properties",), "write its texts into a text file, one per line", is_text=True),
    Format(
        "a table of comma-separated values", (".csv", ".csv.gz"),
        "write its column of texts into a text file, one per line",
        "save it as tab-separated text without quotes, in a file that ends in .tsv", is_text=True,
    ),
    Format(
        "a file compressed by bzip2", (".bz2",), "decompress it by `bunzip2 -k`", "decompress it by `bunzip2 -k`",
        re.compile(rb"BZh[1-9]"), re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)"),
    ),
    Format(
        "a file compressed by xz", (".xz", ".lzma"), "decompress it by `unxz -k`", "decompress it by `unxz -k`",
        re.compile(rb"\xfd7zXZ\0|\x5d\0\0"), re.compile(rb"\xfd7zXZ\0"),
    ),
    Format(
        "an archive (7z)", (".7z",), "unpack it, and name a file in it", "unpack it, and name the files in it",
        re.compile(rb"7z\xbc\xaf\x27\x1c"), re.compile(rb"7z\xbc\xaf\x27\x1c"),
    ),
    Format(
        "an archive (RAR)", (".rar",), "unpack it, and name a file in it", "unpack it, and name the files in it",
        re.compile(rb"Rar!\x1a\x07"), re.compile(rb"Rar!\x1a\x07"),
    ),
    Format(
        "an archive (tar)", (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"),
        "unpack it by `tar -xf`, and name a file in it", "unpack it by `tar -xf`, and name the files in it",
        certain=re.compile(rb".{257}ustar[\0 ]", re.DOTALL),
    ),
    Format(
        "a zip archive", (".zip",), "unpack it, and name a file in it", first=_ZIP, certain=_ZIP,
        is_corpus=True,
    ),
    Format(
        "a Parquet file", (".parquet",), 'read it by `column=`, with the extra "parquet"', first=re.compile(rb"PAR1"),
        certain=re.compile(rb"PAR1"), is_corpus=True,
    ),
)  # fmt: skip
"""The formats, in the order in which their first bytes are tried: the special ones before the general ones."""


def detect_format(path: str | Path, head: bytes | None = None) -> Format | None:
    """Returns the format of a file; None for plain text, even if it is compressed by gzip or Zstandard.

    Args:
        head: the first bytes of the content; if None, they are read from the file if it is a regular one. A missing
            file, a pipe and a device are judged by name, without opening or waiting.
    """
    head = _read_head(Path(path)) if head is None else head[:HEAD]
    name = str(path).lower()
    for each in FORMATS:
        if name.endswith(each.endings) and (not head or each.first.match(head)):
            return each
    return next((each for each in FORMATS if each.certain and each.certain.match(head)), None)


def _read_head(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return b""
        with path.open("rb") as file:
            return file.read(HEAD)
    except (OSError, ValueError):
        return b""
