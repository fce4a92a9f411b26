"""Programs and libraries that read a document and its translation: the structures that they see must be equal."""

import io
import json
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

XML = (".xml", ".rels", ".xhtml", ".opf", ".ncx")
OF_RUNS = {"r", "t", "rPr", "proofErr", "lang", "span", "noBreakHyphen", "softHyphen"}
"""Elements of runs: equal runs are joined, a run whose words are apart in the translation is divided, and hyphens are
written as characters."""
OFFICE = {"docx": "txt:Text", "odt": "txt:Text", "xlsx": "csv", "pptx": "pdf"}
"""The formats into which LibreOffice converts a kind, to show its structure."""


def find_differences(kind: str, before: bytes, after: bytes, has_office: bool = False) -> list[str]:
    """Returns the judges that see another structure in the translation, or do not open it, with the first difference.

    A judge that does not open the document itself has no opinion.
    """
    judges = dict(JUDGES.get(kind, {}))
    if has_office and kind in OFFICE:
        judges["LibreOffice"] = lambda data: read_by_office(kind, data)
    faults = []
    for name, read in judges.items():
        try:
            expected = read(before)
        except TimeoutError:
            raise
        except Exception:
            continue
        try:
            found = read(after)
        except TimeoutError:
            raise
        except Exception as error:
            faults.append(f"{name} does not open the translation: {error}"[:300])
            continue
        if expected != found:
            pairs = zip(expected, found, strict=False) if isinstance(expected, list) else [(expected, found)]
            one, other = next(((a, b) for a, b in pairs if a != b), (len(expected), len(found)))
            faults.append(f"{name} sees {str(other)[:120]!r} in place of {str(one)[:120]!r}")
    return faults


def read_by_office(kind: str, data: bytes) -> object:
    """Returns the number of lines, of cells of each row, or of pages that LibreOffice finds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x.{kind}"
        path.write_bytes(data)
        command = [
            "soffice", f"-env:UserInstallation=file://{tempfile.gettempdir()}/soffice-profile", "--headless",
            "--convert-to", OFFICE[kind], "--outdir", folder, str(path),
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        made = next(each for each in Path(folder).iterdir() if each != path).read_bytes()
        if kind == "pptx":
            return len(re.findall(rb"/Type\s*/Page\b", made))
        if kind == "xlsx":
            import csv

            return [len(row) for row in csv.reader(io.StringIO(made.decode("utf-8", "replace")))]
        return made.count(b"\n")


def _catalogue(data: bytes) -> list[object]:
    import polib

    return [
        (each.msgctxt, each.msgid, each.msgid_plural, sorted(each.msgstr_plural), each.flags, each.comment)
        for each in polib.pofile(data.decode())
    ]


def _accept(data: bytes) -> bool:
    command = ["msgfmt", "--check-format", "--check-header", "-o", "/dev/null", "-"]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.decode("utf-8", "replace"))
    return True


def _word(data: bytes) -> list[object]:
    import docx

    document = docx.Document(io.BytesIO(data))
    return [(each.style.name, bool(each.text.strip())) for each in document.paragraphs] + [
        len(table.rows) for table in document.tables
    ]


def _workbook(data: bytes) -> list[object]:
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(data))
    return [
        (sheet.title, cell.coordinate, cell.data_type, cell.number_format, _constant(cell))
        for sheet in book
        for row in sheet.iter_rows()
        for cell in row
    ]


def _constant(cell: Any) -> object:
    """Returns the value of a cell that is no text; of a formula of several cells its text."""
    return "" if cell.data_type == "s" else getattr(cell.value, "text", cell.value)


def _presentation(data: bytes) -> list[object]:
    import pptx

    return [
        (shape.shape_type, shape.name, shape.has_text_frame and len(shape.text_frame.paragraphs))
        for slide in pptx.Presentation(io.BytesIO(data)).slides
        for shape in slide.shapes
    ]


def _members(data: bytes) -> list[object]:
    from lxml import etree

    parser = etree.XMLParser(load_dtd=False, no_network=True, resolve_entities=False)
    found: list[object] = []
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        for name in file.namelist():
            found.append(name)
            if name.endswith(XML):
                root = etree.fromstring(file.read(name), parser)
                inside = {inner for node in root.iter("{*}rPr") for inner in node.iter("*")}
                names = [etree.QName(node).localname for node in root.iter("*") if node not in inside]
                found.append(sorted(tag for tag in names if tag not in OF_RUNS))
    return found


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[object] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        names = [(name, value) for name, value in attrs if name in ("id", "class", "href", "src", "name")]
        self.found.append((tag, *names))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}",))


def _page(data: bytes) -> list[object]:
    tags = _Tags()
    tags.feed(data.decode("utf-8", "replace"))
    return sorted(tags.found, key=repr)  # inline elements may change places


def _markdown(data: bytes) -> list[object]:
    from markdown_it import MarkdownIt

    found: list[object] = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(data.decode()):
        found.append((token.type, token.markup, token.content if token.type in ("fence", "code_block") else ""))
        marks = [
            (each.type, each.content if each.type == "code_inline" else each.attrGet("href") or each.attrGet("src"))
            for each in token.children or ()
            if each.type not in ("text", "softbreak", "html_inline")
        ]
        found.append(sorted(marks, key=repr))
    return found


def _values(value: Any, at: str = "") -> list[object]:
    if isinstance(value, dict):
        return [each for key, inner in value.items() for each in [f"{at}/{key}", *_values(inner, f"{at}/{key}")]]
    if isinstance(value, list):
        return [each for number, inner in enumerate(value) for each in _values(inner, f"{at}/{number}")]
    return [(at, type(value).__name__, None if isinstance(value, str) else value)]


def _yaml(data: bytes) -> list[object]:
    import yaml

    return [each for document in yaml.safe_load_all(data) for each in _values(document)]


JUDGES: dict[str, dict[str, Callable[[bytes], Any]]] = {
    "docx": {"python-docx": _word, "lxml": _members},
    "xlsx": {"openpyxl": _workbook, "lxml": _members},
    "pptx": {"python-pptx": _presentation, "lxml": _members},
    "odt": {"lxml": _members},
    "epub": {"lxml": _members},
    "html": {"html.parser": _page},
    "md": {"markdown-it": _markdown},
    "po": {"polib": _catalogue} | ({"msgfmt": _accept} if shutil.which("msgfmt") else {}),
    "json": {"json": lambda data: _values(json.loads(data.decode("utf-8-sig")))},
    "yaml": {"PyYAML": _yaml},
}
"""For each kind its judges by name: functions that return the structure of a document."""
