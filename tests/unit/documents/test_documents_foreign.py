"""Other libraries and programs as judges: they read a translated document, and find its structure and its texts."""

import io
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pellucid.documents.document import open_document
from tests.fuzz.document_judges import find_differences
from tests.unit.documents.stand_ins import reverse_words, uppercase

pytestmark = pytest.mark.foreign
FOLDER = Path(__file__).parents[2] / "fixtures" / "documents"


def translated(name: str, translation: Any = uppercase) -> tuple[bytes, io.BytesIO, io.BytesIO]:
    """Returns a translated document, and the original and the translation as files."""
    data, _ = open_document(FOLDER / name).translate(translation, "en")
    return data, io.BytesIO((FOLDER / name).read_bytes()), io.BytesIO(data)


def shout(text: str) -> str:
    return "".join(c.upper() if len(c.upper()) == 1 else c for c in text)


def test_word_documents_open_in_python_docx() -> None:
    import docx

    _, before, after = translated("runs.docx")
    one, other = docx.Document(before), docx.Document(after)
    assert [shout(each.text) for each in one.paragraphs[:-3]] == [each.text for each in other.paragraphs[:-3]]
    assert [each.style.name for each in one.paragraphs] == [each.style.name for each in other.paragraphs]
    assert [run.text for run in other.paragraphs[2].runs if run.bold] == ["ROTEN HUT"]
    (link,) = other.paragraphs[3].hyperlinks
    assert (link.text, link.address) == ("FAHRRAD", "https://example.org/rad")


@pytest.mark.filterwarnings("ignore:Workbook contains no default style")
def test_workbooks_open_in_openpyxl() -> None:
    import openpyxl

    _, before, after = translated("cells.xlsx")
    one, other = openpyxl.load_workbook(before), openpyxl.load_workbook(after)
    assert one.sheetnames == other.sheetnames
    for sheet in one.sheetnames:
        for row, changed in zip(one[sheet].rows, other[sheet].rows, strict=True):
            for cell, new in zip(row, changed, strict=True):
                assert (cell.coordinate, cell.number_format, cell.data_type) == (
                    new.coordinate, new.number_format, new.data_type
                )  # fmt: skip
                if cell.data_type != "s":
                    assert cell.value == new.value
    tiere = other["Tiere"]
    (table,) = tiere.tables.values()
    assert [column.name for column in table.tableColumns] == [cell.value for cell in tiere[1][:3]]
    assert tiere["A2"].value == tiere["A5"].value == "EIN HUND LÄUFT DURCH DAS GRAS."
    assert tiere["C2"].value == "A-17"


def test_presentations_open_in_python_pptx() -> None:
    import pptx

    _, before, after = translated("slides.pptx")
    one, other = pptx.Presentation(before).slides[0], pptx.Presentation(after).slides[0]
    (said,) = [shape.text_frame.text for shape in one.notes_slide.shapes if shape.has_text_frame]
    assert [shape.text_frame.text for shape in other.notes_slide.shapes if shape.has_text_frame] == [shout(said)]
    assert [shape.name for shape in one.shapes] == [shape.name for shape in other.shapes]
    chart, new = one.shapes[3].chart, other.shapes[3].chart
    assert shout(chart.chart_title.text_frame.text) == new.chart_title.text_frame.text
    assert [[*each.values] for each in chart.series] == [[*each.values] for each in new.series]


def test_catalogues_open_in_polib_and_pass_msgfmt() -> None:
    import polib

    data, _, _ = translated("messages.po", reverse_words)
    one, other = polib.pofile(str(FOLDER / "messages.po")), polib.pofile(data.decode())
    assert [(each.msgctxt, each.msgid, each.flags, each.occurrences) for each in one] == [
        (each.msgctxt, each.msgid, each.flags, each.occurrences) for each in other
    ]
    assert not other.untranslated_entries()
    assert one.metadata == other.metadata
    if shutil.which("msgfmt"):
        command = ["msgfmt", "--check-format", "--check-header", "-o", "/dev/null", "-"]
        subprocess.run(command, input=data, check=True, capture_output=True)


@pytest.mark.parametrize("translation", [uppercase, reverse_words])
@pytest.mark.parametrize(
    "name",
    sorted(
        path.name
        for path in FOLDER.iterdir()
        if path.suffix in (".docx", ".xlsx", ".pptx", ".odt", ".epub", ".xlf", ".xliff", ".tmx")
    ),
)
def test_xml_is_read_by_lxml_with_the_same_elements(name: str, translation: Any) -> None:
    from lxml import etree

    data, before, after = translated(name, translation)
    parts = [(before.getvalue(), data)]
    if data.startswith(b"PK"):
        with zipfile.ZipFile(before) as one, zipfile.ZipFile(after) as other:
            assert one.namelist() == other.namelist()
            ends = (".xml", ".rels", ".xhtml", ".opf", ".ncx")
            parts = [(one.read(each), other.read(each)) for each in one.namelist() if each.endswith(ends)]
    parser = etree.XMLParser(load_dtd=False, no_network=True, resolve_entities=False)
    runs = {"r", "t", "rPr", "lang", "proofErr", "b", "i", "color", "span"}  # equal runs are joined, and may be divided
    for old, new in parts:
        counts = []
        for each in (old, new):
            names = [etree.QName(node).localname for node in etree.fromstring(each, parser).iter("*")]
            counts.append(sorted(found for found in names if found not in runs))
        filled = [*counts[1]]
        for found in counts[0]:
            filled.remove(found)
        assert set(filled) <= {"target", "tuv", "seg", "g", "x", "bpt", "ept", "ph", "mrk", "pc", "sc", "ec"}


@pytest.mark.parametrize("translation", [uppercase, reverse_words])
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir() if path.is_file()))
def test_the_judges_of_a_kind_see_the_same_structure(name: str, translation: Any) -> None:
    document = open_document(FOLDER / name)
    data, _ = document.translate(translation, document.source or "de")
    assert find_differences(document.kind, (FOLDER / name).read_bytes(), data) == []


def test_a_judge_sees_a_lost_link_and_a_new_list() -> None:
    text = b"Ein [Hund][] schl\xc3\xa4ft.\n\n[Hund]: x.html\n"
    assert find_differences("md", text, text.replace(b"[Hund][]", b"[DOG][]")) != []
    assert find_differences("md", text, text.replace(b"Ein [", b"1. [")) != []
    assert find_differences("json", b'{"a": "x", "b": 1}', b'{"a": "y", "b": "1"}') != []
    assert find_differences("json", b'{"a": "x", "b": 1}', b'{"a": "y", "b": 1}') == []
