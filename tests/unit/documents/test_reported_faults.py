"""Faults that users reported of programs that translate documents: each has a document, and what must hold."""

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from pellucid.documents.document import DocumentReport, read_document
from pellucid.documents.spans import Answer, TextSegment
from pellucid.errors import DataError
from tests.unit.documents.archives import docx, epub, odt, pptx, relationships, run, slide, words, xlsx
from tests.unit.documents.stand_ins import identity, reverse_words, uppercase


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


def field(code: str, said: str) -> str:
    """Returns a field of Word with its result."""
    piece = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
    return (
        f'{piece.format("begin")}<w:r><w:instrText xml:space="preserve"> {code} </w:instrText></w:r>'
        f"{piece.format('separate')}{run(said)}{piece.format('end')}"
    )


BOX = f"<w:txbxContent>{paragraph(run('Ein Kind'))}</w:txbxContent>"
CHOICE = (
    '<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wp:inline><wp:docPr id="1" name="Bild 1" '
    f'descr="ein Hund"/><a:graphic><a:graphicData><wps:wsp><wps:txbx>{BOX}</wps:txbx></wps:wsp></a:graphicData>'
    f"</a:graphic></wp:inline></w:drawing></mc:Choice><mc:Fallback><w:pict><v:shape><v:textbox>{BOX}</v:textbox>"
    "</v:shape></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
)
FOOTNOTE = f'<w:footnote w:id="2">{paragraph("<w:r><w:footnoteRef/></w:r>", run(" eine Note"))}</w:footnote>'
WORD = {
    "a word split over runs": (
        paragraph(run("Ein Hu"), '<w:proofErr w:type="spellStart"/>', run("nd l", '<w:lang w:val="de-DE"/>'), run(
        "äuft.")),
        ">EIN HUND LÄUFT.</w:t>",
    ),
    "a bold word does not cut the sentence": (
        paragraph(run("Ein "), run("roter", "<w:b/>"), run(" Hut liegt.")),
        '>EIN </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">ROTER</w:t></w:r>'
        '<w:r><w:rPr></w:rPr><w:t xml:space="preserve"> HUT LIEGT.</w:t>',
    ),
    "a link stays around its words": (
        paragraph(run("Ein "), f'<w:hyperlink r:id="rId9">{run("Rad")}</w:hyperlink>', run(" steht.")),
        '<w:hyperlink r:id="rId9"><w:r><w:rPr></w:rPr><w:t xml:space="preserve">RAD</w:t></w:r></w:hyperlink>',
    ),
    "a link in a link": (
        paragraph(f'<w:hyperlink r:id="a">{run("Ein ")}<w:hyperlink r:id="b">{run("Rad")}</w:hyperlink></w:hyperlink>'),
        '<w:hyperlink r:id="b"><w:r><w:rPr></w:rPr><w:t xml:space="preserve">RAD</w:t>',
    ),
    "a field that is a link is text": (paragraph(field('HYPERLINK "https://example.org/a b"', "ein Rad")), ">EIN RAD<"),
    "a text box and its fallback copy": (paragraph(CHOICE),
    f">{'EIN KIND'}</w:t></w:r></w:p></w:txbxContent></wps:txbx>"),
    "the copy is equal": (paragraph(CHOICE), ">EIN KIND</w:t></w:r></w:p></w:txbxContent></v:textbox>"),
    "an alternative text": (paragraph(CHOICE), 'name="Bild 1" descr="EIN HUND"'),
    "a content control, block": (
        f'<w:sdt><w:sdtPr><w:alias w:val="Feld"/></w:sdtPr><w:sdtContent>{paragraph(run("ein Titel"))}'
        f'</w:sdtContent></w:sdt>',
        ">EIN TITEL<",
    ),
    "a content control, inline": (
        paragraph(run("Von "),
        f'<w:sdt><w:sdtPr><w:text/></w:sdtPr><w:sdtContent>{run("einem Mann")}</w:sdtContent></w:sdt>'),
        ">EINEM MANN</w:t></w:r></w:sdtContent></w:sdt>",
    ),
    "the values of a list of a control stay": (
        paragraph(
            run("Farbe: "),
            '<w:sdt><w:sdtPr><w:dropDownList><w:listItem w:displayText="rot" w:value="rot"/></w:dropDownList></w:sdtPr>'
            f'<w:sdtContent>{run("rot")}</w:sdtContent></w:sdt>',
        ),
        'w:displayText="rot" w:value="rot"/></w:dropDownList></w:sdtPr><w:sdtContent><w:r><w:rPr></w:rPr>'
        '<w:t xml:space="preserve">rot</w:t>',
    ),
    "inserted text is text": (paragraph(run("Sie "), f'<w:ins w:id="1">{run("liest")}</w:ins>'),
    ">LIEST</w:t></w:r></w:ins>"),
    "moved text is text": (paragraph(f'<w:moveTo w:id="1">{run("ein Satz")}</w:moveTo>'),
    ">EIN SATZ</w:t></w:r></w:moveTo>"),
    "deleted text stays": (
        paragraph(run("Sie "), '<w:del w:id="1"><w:r><w:delText>kauft</w:delText></w:r></w:del>', run("liest.")),
        "<w:delText>kauft</w:delText>",
    ),
    "text moved away stays": (
        paragraph(run("Sie "), f'<w:moveFrom w:id="1">{run("ein Satz")}</w:moveFrom>', run("liest.")),
        ">ein Satz</w:t></w:r></w:moveFrom>",
    ),
    "a page number is a field": (paragraph(run("Seite "), field("PAGE", "23")),
    '>23</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/>'),
    "a simple field": (
        paragraph(run("Seite "), f'<w:fldSimple w:instr=" PAGE ">{run("23 von")}</w:fldSimple>'),
        '<w:fldSimple w:instr=" PAGE "><w:r><w:rPr></w:rPr><w:t xml:space="preserve">23 von</w:t>',
    ),
    "a citation is a field": (
        paragraph(run("Siehe "), field("ADDIN ZOTERO_ITEM {}", "(Mann, 2024)"), run(" dort.")), ">(Mann, 2024)<",
    ),
    "a table of contents over several paragraphs": (
        paragraph(
            '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> TOC </w:instrText></w:r>'
            '<w:r><w:fldChar w:fldCharType="separate"/></w:r>',
            f'<w:hyperlink w:anchor="_Toc1">{run("ein Titel")}<w:r><w:tab/></w:r>{field("PAGEREF _Toc1", "3")}'
            f'</w:hyperlink>',
        )
        + paragraph('<w:r><w:fldChar w:fldCharType="end"/></w:r>'),
        ">EIN TITEL<",
    ),
    "comments and bookmarks keep their places": (
        paragraph(
            '<w:bookmarkStart w:id="1" w:name="x"/><w:commentRangeStart w:id="0"/>', run("Ein Hund"),
            '<w:commentRangeEnd w:id="0"/><w:r><w:commentReference w:id="0"/></w:r><w:bookmarkEnd w:id="1"/>', run(
            " bellt."),
        ),
        '<w:bookmarkStart w:id="1" w:name="x"/><w:commentRangeStart w:id="0"/>',
    ),
    "a tab is no letter": (paragraph(run("Ein Hund"), "<w:r><w:tab/></w:r>", run("eine Katze")), "<w:r><w:tab/></w:r>"),
    "a hyphen that may break": (paragraph("<w:r><w:t>Hun</w:t><w:softHyphen/><w:t>de</w:t></w:r>"), ">HUNDE</w:t>"),
    "a symbol": (paragraph(run("Ein "), '<w:r><w:sym w:font="Wingdings" w:char="F04A"/></w:r>', run(" Hund")),
    "<w:sym w:font"),
    "a space at an end": (
        paragraph("<w:r><w:t>Ein</w:t></w:r>",
        "<w:r><w:rPr><w:b/></w:rPr><w:t xml:space=\"preserve\"> Hund</w:t></w:r>"),
        '<w:t xml:space="preserve"> HUND</w:t>',
    ),
    "a formula": (paragraph(run("Es gilt "), "<m:oMath><m:r><m:t>E=mc</m:t></m:r></m:oMath>"), "<m:t>E=mc</m:t>"),
    "the language of a run": (paragraph(run("Ein Hund", '<w:lang w:val="de-DE"/>')), '<w:lang w:val="en"/>'),
    "another language of a run": (paragraph(run("Un chien", '<w:lang w:val="fr-FR"/>')), '<w:lang w:val="fr-FR"/>'),
    "a table in a table": (
        f"<w:tbl><w:tr><w:tc><w:tbl><w:tr><w:tc>{paragraph(run('ein Hund'))}</w:tc></w:tr></w:tbl></w:tc></w:tr>"
        f"</w:tbl>",
        ">EIN HUND<",
    ),
}  # fmt: skip
"""The body of a Word document, and what its translation into upper case holds."""


def said_of(data: bytes, name: str, member: str = "") -> tuple[str, DocumentReport]:
    """Returns a translation into upper case, or a member of it. Other translations are tried, too."""
    document = read_document(data, Path(name))
    for each in (identity, reverse_words):  # the result is read again and compared
        _, report = document.translate(each, document.source or "de")
        assert not [unit for unit in report.units if unit.state == "failed"]
    found, report = document.translate(uppercase, "en")
    if member:
        with zipfile.ZipFile(io.BytesIO(found)) as file:
            found = file.read(member)
    return found.decode(document.parts[0].encoding if document.parts else "utf-8"), report


@pytest.mark.parametrize("row", WORD)
def test_word(row: str) -> None:
    body, expected = WORD[row]
    text, _ = said_of(docx(body), "x.docx", "word/document.xml")
    assert expected in text


@pytest.mark.parametrize(
    ("name", "kind", "inside"),
    [
        ("word/kopf.xml", "wordprocessingml.header", paragraph(run("eine Note"))),
        ("word/other/fuss1.xml", "wordprocessingml.footer", paragraph(run("eine Note"))),
        ("word/footnotes.xml", "wordprocessingml.footnotes", FOOTNOTE),
        ("word/endnotes.xml", "wordprocessingml.endnotes", FOOTNOTE.replace("footnote", "endnote")),
    ],
)
def test_parts_of_word_are_found_by_their_type(name: str, kind: str, inside: str) -> None:
    data = docx(paragraph(run("Ein Hund")), {name: (kind, inside)})
    text, _ = said_of(data, "x.docx", name)
    assert "EINE NOTE</w:t>" in text
    assert ("<w:footnoteRef/>" in text) == ("footnoteRef" in inside)


def test_comments_of_reviewers_stay() -> None:
    data = docx(
        paragraph(run("Ein Hund")), {"word/comments.xml": ("wordprocessingml.comments", paragraph(run("bitte prüfen")))}
    )
    assert "bitte prüfen" in said_of(data, "x.docx", "word/comments.xml")[0]


SHARED = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>0</v></c></row>'
TABLE = {
    "xl/worksheets/_rels/sheet1.xml.rels": ("", relationships(table_1="../tables/table1.xml")),
    "xl/tables/table1.xml": (
        "spreadsheetml.table",
        '<table NAMES id="1" name="T" displayName="T" ref="A1:B2"><tableColumns count="2"><tableColumn id="1" '
        'name="Tier"/><tableColumn id="2" name="Zahl"/></tableColumns></table>',
    ),
}
ROWS_OF_TABLE = (
    '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>Zahl</t></is></c></row>'
    '<row r="2"><c r="A2" t="s"><v>1</v></c><c r="B2"><f>COUNTIF(T[Tier],"*Hund*")</f><v>1</v></c></row>'
)


def test_the_column_names_of_a_table_stay_in_all_places() -> None:
    data = xlsx("<si><t>Tier</t></si><si><t>ein Hund</t></si>", ROWS_OF_TABLE, TABLE)
    text, report = said_of(data, "x.xlsx", "xl/sharedStrings.xml")
    assert "<si><t>Tier</t></si><si><t>EIN HUND</t></si>" in text
    assert [unit.flags for unit in report.units if unit.text in ("Tier", "Zahl")] == [("a column name of a table",)] * 2
    assert "<t>Zahl</t>" in said_of(data, "x.xlsx", "xl/worksheets/sheet1.xml")[0]


def test_strings_of_formulas_and_names_of_sheets_stay() -> None:
    data = xlsx("<si><t>Tier</t></si><si><t>ein Hund</t></si>", ROWS_OF_TABLE, TABLE)
    assert 'COUNTIF(T[Tier],"*Hund*")' in said_of(data, "x.xlsx", "xl/worksheets/sheet1.xml")[0]
    assert 'name="Tiere"' in said_of(data, "x.xlsx", "xl/workbook.xml")[0]


SHEETS = {
    "bold in a cell": (
        '<si><r><t xml:space="preserve">Ein </t></r><r><rPr><b/></rPr><t>Mann</t></r></si>', SHARED,
        '<r><rPr><b/></rPr><t>MANN</t></r>',
    ),
    "an index does not shift": ("<si><t>ein Hund</t></si><si/><si><t>ein Hund</t></si>", SHARED,
        "<si><t>EIN HUND</t></si><si/><si><t>EIN HUND</t></si>"),
    "allowed values stay": ("<si><t>ja</t></si><si><t>ein Hund</t></si>", SHARED, "<si><t>ja</t></si><si><t>EIN"),
    "codes stay": ("<si><t>A-17</t></si><si><t>ein Hund</t></si>", SHARED, "<si><t>A-17</t></si>"),
    "a phonetic reading goes with its base": (
        '<si><t>ein Hund</t><rPh sb="0" eb="1"><t>ハ</t></rPh><phoneticPr fontId="1"/></si>', SHARED,
        "<si><t>EIN HUND</t></si>",
    ),
    "a phonetic reading goes with its runs": (
        '<si><r><t xml:space="preserve">ein </t></r><r><rPr><b/></rPr><t>Hund</t></r><rPh sb="0" eb="1"><t>ハ</t>'
        '</rPh></si>', SHARED,
        "<rPr><b/></rPr><t>HUND</t></r></si>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", SHEETS)
def test_workbooks(row: str) -> None:
    strings, rows, expected = SHEETS[row]
    values = (
        '<dataValidations count="1"><dataValidation type="list" sqref="D2"><formula1>"ja,nein"</formula1>'
        "</dataValidation></dataValidations>"
    )
    assert expected in said_of(xlsx(strings, rows, after=values), "x.xlsx", "xl/sharedStrings.xml")[0]


def test_results_of_formulas_and_numbers_stay() -> None:
    rows = (
        '<row r="1"><c r="A1" t="str"><f>A2</f><v>ein Hund</v></c><c r="B1" t="e"><v>#NAME?</v></c>'
        '<c r="C1" t="inlineStr"><is><t>eine Katze</t></is></c></row>'
    )
    text, _ = said_of(xlsx("", rows), "x.xlsx", "xl/worksheets/sheet1.xml")
    assert "<v>ein Hund</v>" in text
    assert "<t>EINE KATZE</t>" in text


def test_shapes_and_charts_of_a_workbook_stay_and_their_texts_change() -> None:
    shape = "<xdr:wsDr xmlns:xdr='x' NAMES><xdr:sp><xdr:txBody><a:p>{}</a:p></xdr:txBody></xdr:sp></xdr:wsDr>"
    parts = {"xl/drawings/drawing1.xml": ("drawing", shape.format(words("ein Hund")))}
    data = xlsx("<si><t>eine Katze</t></si>", SHARED, parts)
    text, _ = said_of(data, "x.xlsx", "xl/drawings/drawing1.xml")
    assert "<a:t>EIN HUND</a:t>" in text


CHART = (
    "<c:chartSpace NAMES><c:chart><c:title><c:tx><c:rich><a:p>{}</a:p></c:rich></c:tx></c:title><c:ser><c:cat>"
    "<c:strRef>"
    "<c:strCache><c:pt idx='0'><c:v>Hunde</c:v></c:pt></c:strCache></c:strRef></c:cat></c:ser><c:valAx><c:title><c:tx>"
    "<c:rich><a:p>{}</a:p></c:rich></c:tx></c:title></c:valAx></c:chart></c:chartSpace>"
)
TREE = "<a:tbl><a:tr><a:tc><a:txBody><a:p>{}</a:p></a:txBody></a:tc></a:tr></a:tbl>"
SLIDES = {
    "notes": (
        "ppt/notesSlides/notesSlide1.xml", "presentationml.notesSlide", "<p:notes NAMES><a:p>{}</a:p></p:notes>",
        "<a:t>EIN HUND</a:t>",
    ),
    "titles of charts": ("ppt/charts/chart1.xml", "drawingml.chart", CHART, "<a:t>EIN HUND</a:t>"),
    "titles of axes": ("ppt/charts/chart1.xml", "drawingml.chart", CHART, "<c:valAx><c:title><c:tx><c:rich><a:p>"
        '<a:r><a:rPr lang="en" /><a:t>EIN HUND</a:t>'),
    "categories of charts stay": ("ppt/charts/chart1.xml", "drawingml.chart", CHART, "<c:v>Hunde</c:v>"),
    "a diagram": (
        "ppt/diagrams/data1.xml", "drawingml.diagramData",
        "<dgm:dataModel NAMES><dgm:pt><dgm:t><a:p>{}</a:p></dgm:t></dgm:pt>"
        "</dgm:dataModel>", "<a:t>EIN HUND</a:t>",
    ),
    "the drawn copy of a diagram": (
        "ppt/diagrams/drawing1.xml", "ms-office.drawingml.diagramDrawing",
        "<dsp:drawing NAMES><a:p>{}</a:p></dsp:drawing>",
        "<a:t>EIN HUND</a:t>",
    ),
    "a table": ("ppt/slides/slide1.xml", *slide(TREE), "<a:t>EIN HUND</a:t>"),
    "a group in a group": (
        "ppt/slides/slide1.xml", *slide(
        "<p:grpSp><p:grpSp><p:sp><p:txBody><a:p>{}</a:p></p:txBody></p:sp></p:grpSp></p:grpSp>"),
        "<a:t>EIN HUND</a:t>",
    ),
    "a field": (
        "ppt/slides/slide1.xml", *slide('<a:p>{}<a:fld id="x" type="slidenum"><a:t>7 von</a:t></a:fld></a:p>'),
        '<a:fld id="x" type="slidenum"><a:t>7 von</a:t></a:fld>',
    ),
    "a break": ("ppt/slides/slide1.xml", *slide("<a:p>{}<a:br/>{}</a:p>"), "EIN HUND</a:t></a:r><a:br/>"),
    "the language": ("ppt/slides/slide1.xml", *slide("<a:p>{}</a:p>"), 'lang="en"'),
    "a layout stays": (
        "ppt/slideLayouts/slideLayout1.xml", "presentationml.slideLayout",
        "<p:sldLayout NAMES><a:p>{}</a:p></p:sldLayout>",
        "<a:t>ein Hund</a:t>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", SLIDES)
def test_presentations(row: str) -> None:
    name, kind, whole, expected = SLIDES[row]
    parts = {name: (kind, whole.replace("{}", words("ein Hund")))}
    if "slide1" not in name:
        parts["ppt/slides/slide1.xml"] = slide(f"<a:p>{words('eine Katze')}</a:p>")
    assert expected in said_of(pptx(parts), "x.pptx", name)[0]


ODT = {
    "a span is a mark": (
        "<text:p>Ein <text:span text:style-name='b'>roter</text:span> Hut liegt.</text:p>",
        "<text:p>EIN <text:span text:style-name='b'>ROTER</text:span> HUT LIEGT.</text:p>",
    ),
    "a span in a span": (
        "<text:p><text:span>Ein <text:span>roter</text:span></text:span> Hut</text:p>",
        "<text:span>ROTER</text:span></text:span> HUT",
    ),
    "text behind spaces": ("<text:p>Ein<text:s text:c='3'/>Hund</text:p>", "EIN<text:s text:c='3'/>HUND"),
    "a tab": ("<text:p>Ein Hund<text:tab/>eine Katze</text:p>", "EIN HUND<text:tab/>EINE KATZE"),
    "a break": ("<text:p>Ein Hund bellt.<text:line-break/>Eine Katze schläft.</text:p>",
    "BELLT.<text:line-break/>EINE"),
    "a page break of the last layout": ("<text:p>Ein <text:soft-page-break/>Hund</text:p>", "HUND</text:p>"),
    "a note in a sentence": (
        "<text:p>Ein Hund<text:note text:id='1'><text:note-citation>1</text:note-citation><text:note-body><text:p>"
        "eine Note"
        "</text:p></text:note-body></text:note> bellt.</text:p>",
        "EIN HUND<text:note text:id='1'><text:note-citation>1</text:note-citation><text:note-body><text:p>EINE NOTE"
        "</text:p></text:note-body></text:note> BELLT.",
    ),
    "a comment": (
        "<text:p>Ein Hund<office:annotation><text:p>bitte prüfen</text:p></office:annotation> bellt.</text:p>",
        "bitte prüfen",
    ),
    "deleted text": (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>alt und weg</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes><text:p>Ein Hund</text:p>",
        "alt und weg",
    ),
    "fields": (
        "<text:p>Ein Hund auf Seite <text:page-number>sieben</text:page-number>, siehe <text:bookmark-ref>oben"
        "</text:bookmark-ref>, Bild <text:sequence>drei</text:sequence>.</text:p>",
        "<text:page-number>sieben</text:page-number>",
    ),
    "a numbered heading": ("<text:h text:outline-level='1'><text:number>1.</text:number>ein Titel</text:h>",
    "<text:number>1.</text:number>EIN TITEL"),
    "a link": ("<text:p>Ein <text:a xlink:href='x'>Rad</text:a> steht.</text:p>",
    "<text:a xlink:href='x'>RAD</text:a>"),
    "a description": (
    "<text:p><draw:frame><svg:title>ein Bild</svg:title><svg:desc>ein Hund</svg:desc></draw:frame></text:p>",
    "<svg:desc>EIN HUND<"),
    "a text box": (
    "<text:p><draw:frame><draw:text-box><text:p>ein Kasten</text:p></draw:text-box></draw:frame></text:p>",
    ">EIN KASTEN<"),
}  # fmt: skip


@pytest.mark.parametrize("row", ODT)
def test_open_document_texts(row: str) -> None:
    body, expected = ODT[row]
    assert expected in said_of(odt(body), "x.odt", "content.xml")[0]


def test_headers_of_open_document_texts_are_in_their_styles() -> None:
    master = "<style:master-page><style:header><text:p>eine Kopfzeile</text:p></style:header></style:master-page>"
    assert ">EINE KOPFZEILE<" in said_of(odt("<text:p>Ein Hund</text:p>", master), "x.odt", "styles.xml")[0]


NAV = (
    '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><body><nav epub:type="{}">'
    '<ol><li><a href="c.xhtml">ein Hund</a></li></ol></nav></body></html>'
)
NCX = (
    '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" xml:lang="de"><docTitle><text>Ein Hund</text></docTitle><navMap>'
    '<navPoint id="p1"><navLabel><text>ein Hund</text></navLabel><content src="c.xhtml"/></navPoint></navMap></ncx>'
)
BOOKS = {
    "the head": ("<p>Ein Hund</p>", "c.xhtml", '<link rel="stylesheet" href="s.css"/><style>p { color: red }</style>'),
    "contents of EPUB 3": ("<p>Ein Hund</p>", "nav.xhtml", '<a href="c.xhtml">EIN HUND</a>'),
    "landmarks": ("<p>Ein Hund</p>", "marks.xhtml", '<a href="c.xhtml">EIN HUND</a>'),
    "contents of EPUB 2": ("<p>Ein Hund</p>", "t.ncx", "<navLabel><text>EIN HUND</text></navLabel>"),
    "the language of the contents": ("<p>Ein Hund</p>", "t.ncx", 'xml:lang="en"'),
    "the title": ("<p>Ein Hund</p>", "b.opf", "<dc:title>EIN HUND</dc:title>"),
    "the author stays": ("<p>Ein Hund</p>", "b.opf", "<dc:creator>Hans Mann</dc:creator>"),
    "the language of the book": ("<p>Ein Hund</p>", "b.opf", "<dc:language>en</dc:language>"),
    "a link of a note": (
        '<p>Ein Hund<a epub:type="noteref" href="#n"><sup>1</sup></a> bellt.</p>', "c.xhtml",
        'EIN HUND<a epub:type="noteref" href="#n"><sup>1</sup></a> BELLT.',
    ),
    "a reading": ("<p>Ein <ruby>犬<rp>(</rp><rt>いぬ</rt><rp>)</rp></ruby> bellt.</p>", "c.xhtml",
        "<ruby>犬<rp>(</rp><rt>いぬ</rt><rp>)</rp></ruby>"),
    "entities of HTML without a DTD": ("<p>Ein&nbsp;Hund &amp; ein M&auml;dchen</p>", "c.xhtml",
    "EIN\xa0HUND &amp; EIN MÄDCHEN"),
}  # fmt: skip


@pytest.mark.parametrize("folder", ["OPS", "Inhalt/Text"])
@pytest.mark.parametrize("row", BOOKS)
def test_books(row: str, folder: str) -> None:
    page, name, expected = BOOKS[row]
    parts = {
        "nav.xhtml": ("application/xhtml+xml", NAV.format("toc")),
        "marks.xhtml": ("application/xhtml+xml", NAV.format("landmarks")),
        "t.ncx": ("application/x-dtbncx+xml", NCX),
    }
    assert expected in said_of(epub(page, parts, folder), "x.epub", f"{folder}/{name}")[0]


@pytest.mark.parametrize("data", [epub("<p>Ein Hund</p>"), odt("<text:p>Ein Hund</text:p>")])
def test_the_type_of_an_archive_is_stored_and_first(data: bytes) -> None:
    name = Path("x.epub" if b"epub" in data[:100] else "x.odt")
    found, _ = read_document(data, name).translate(uppercase, "en")
    with zipfile.ZipFile(io.BytesIO(found)) as file:
        first = file.infolist()[0]
    assert (first.filename, first.compress_type, first.extra, first.flag_bits) == ("mimetype", 0, b"", 0)
    assert found[30:38] == b"mimetype"


def rows(**table: tuple[str, str]) -> dict[str, tuple[str, str]]:
    return {name.replace("_", " "): row for name, row in table.items()}


PAGES = rows(
    white_space_does_not_split=("<p>Ein Hund\n\t läuft\n   schnell.</p>", "<p>EIN HUND LÄUFT SCHNELL.</p>"),
    white_space_of_pre=("<pre>ein\n  Hund</pre><p>Eine Katze", "<pre>ein\n  Hund</pre>"),
    nested_inline=("<p>Ein <b>sehr <i>roter</i></b> Hut.</p>", "EIN <b>SEHR <i>ROTER</i></b> HUT."),
    space_between_tags=("<p>Ein <b>roter</b> <i>Hut</i> liegt.", "<b>ROTER</b> <i>HUT</i> LIEGT."),
    no_space_between_tags=("<p>Ein <b>rot</b><i>er</i> Hut.", "<b>ROT</b><i>ER</i> HUT."),
    doctype_and_comments=(
        "<!DOCTYPE html PUBLIC '-//W3C//DTD HTML 4.01//EN'><!--[if IE]><p>ein Hund</p><![endif]--><p>Eine <!-- ein "
        "-->Katze",
        "<!DOCTYPE html PUBLIC '-//W3C//DTD HTML 4.01//EN'><!--[if IE]><p>ein Hund</p><![endif]--><p>EINE <!-- ein "
        "-->KATZE",
    ),
    spaces_that_do_not_break=("<p>Ein&nbsp;Hund</p>", "<p>EIN&nbsp;HUND</p>"),
    void_elements=("<p>Ein Hund.<br>Eine Katze.<hr>", "EIN HUND.<br>EINE KATZE.<hr>"),
    void_elements_closed=("<p>Ein Hund.<br/>Eine Katze.<img src=a.png />",
    "EIN HUND.<br/>EINE KATZE.<img src=a.png />"),
    kept_by_attribute=('<p>Der <span translate="no">Hund GmbH</span> gehört es.',
    '<span translate="no">Hund GmbH</span> GEHÖRT'),
    kept_by_class=('<div class="a notranslate">ein Hund</div><p>Eine Katze', '>ein Hund</div><p>EINE KATZE'),
    code=("<p>Der Befehl <code>cp der</code> und <kbd>ein</kbd> gilt.", "<code>cp der</code> UND <kbd>ein</kbd> GILT."),
    text_attributes=(
        '<img alt="ein Hund" title=\'eine Katze\'><input placeholder="ein Wort"><a aria-label="ein Weg">x</a><table '
        'summary="ein Satz">',
        '<img alt="EIN HUND" title=\'EINE KATZE\'><input placeholder="EIN WORT"><a aria-label="EIN WEG">X</a><table '
        'summary="EIN SATZ">',
    ),
    descriptions_of_a_page=(
        '<meta name="description" content="ein Hund"><meta property="og:title" content="eine Katze"><p>Ein Hund',
        'content="EIN HUND"><meta property="og:title" content="EINE KATZE">',
    ),
    notes_behind_a_word=("<p>Wort<sup>1</sup> steht.", "<p>WORT<sup>1</sup> STEHT."),
    a_block_ends_a_unit=("<div>ein</div>Hund<p>b</p>", "<div>EIN</div>HUND<p>B</p>"),
    what_is_no_text=(
        "<script>var a = 'ein'</script><style>a{b:c}</style><template><p>ein</p></template><noscript>ein</noscript>"
        "<svg><text>ein</text></svg><math><mi>ein</mi></math><textarea>ein</textarea><p>Ein Hund",
        "<script>var a = 'ein'</script><style>a{b:c}</style><template><p>ein</p></template><noscript>ein</noscript>"
        "<svg><text>ein</text></svg><math><mi>ein</mi></math><textarea>ein</textarea><p>EIN HUND",
    ),
    data_for_programs=(
        '<script type="application/ld+json">{"name": "ein Hund"}</script><p data-name="ein Hund">Eine Katze',
        '{"name": "ein Hund"}</script><p data-name="ein Hund">EINE KATZE',
    ),
    another_language=('<html lang=de><p lang="fr">un chien</p><p>Ein Hund',
    '<html lang=en><p lang="fr">un chien</p><p>EIN HUND'),
    unquoted_attributes=("<p class=ein title=Hund>Eine Katze", '<p class=ein title="HUND">EINE KATZE'),
    missing_end_tags=("<ul><li>Ein Hund<li>Eine Katze</ul><table><tr><td>Ein Hut<td>Ein Rad</table>",
        "<ul><li>EIN HUND<li>EINE KATZE</ul><table><tr><td>EIN HUT<td>EIN RAD</table>"),
    a_space_at_the_end_of_an_element=("<dl><dt>Ein <a href=x>Hund </a></dt></dl>", "EIN <a href=x>HUND"),
    a_space_that_does_not_break_at_the_end=("<p>Ein <b>roter</b> Hut&nbsp;\n</p>", "<b>ROTER</b> HUT&nbsp;\n</p>"),
    two_links_with_titles=(
        "<p>Ein <a title='ein Hut' href=a>Mann</a> und <a title='ein Rad' href=b>Hunde</a>.",
        "<a title='EIN HUT' href=a>MANN</a> UND <a title='EIN RAD' href=b>HUNDE</a>.",
    ),
    two_pieces_of_code=("<p>Ein <code>a</code>, dann <code>b</code>.", "EIN <code>a</code>, DANN <code>b</code>."),
    entities_are_decoded_once=("<p>Hund&#39;s &amp;lt; &lt;b&gt; &quot;M&auml;dchen&quot;",
    "<p>HUND'S &amp;LT; &lt;B&gt; \"MÄDCHEN\""),
)  # fmt: skip


@pytest.mark.parametrize("row", PAGES)
def test_pages(row: str) -> None:
    page, expected = PAGES[row]
    assert expected in said_of(page.encode(), "x.html")[0]


def test_a_page_in_an_old_encoding_stays_in_it() -> None:
    page = "<meta charset=windows-1252><p>Ein Mädchen – Hut".encode("windows-1252")
    found, _ = read_document(page, Path("x.html")).translate(lambda given: [Answer("Ein Ж – ä") for _ in given], "en")
    assert found == "<meta charset=windows-1252><p>Ein &#1046; – ä".encode("windows-1252")


MARKDOWN = rows(
    front_matter=(
        "---\ntitle: ein Hund\nslug: ein-hund\nlayout: ein\ntags: [ein, hund]\n---\n\nEine Katze\n",
        "---\ntitle: EIN HUND\nslug: ein-hund\nlayout: ein\ntags: [ein, hund]\n---\n\nEINE KATZE\n",
    ),
    fences=("Ein Hund\n\n```sh\nein Hund\neine Katze\n```\n\n~~~\nein\n~~~\n",
    "```sh\nein Hund\neine Katze\n```\n\n~~~\nein\n~~~\n"),
    a_fence_in_a_list=("- Ein Hund\n\n  ```\n  ein Hund\n  ```\n- Eine Katze\n",
    "- EIN HUND\n\n  ```\n  ein Hund\n  ```\n- EINE KATZE\n"),
    a_fence_in_a_quotation=("> Ein Hund\n>\n> ```\n> ein Hund\n> ```\n", "> EIN HUND\n>\n> ```\n> ein Hund\n> ```\n"),
    lists=("- Ein Hund\n  - Eine Katze\n    1. Ein Rad\n* Ein Hut\n",
    "- EIN HUND\n  - EINE KATZE\n    1. EIN RAD\n* EIN HUT\n"),
    code=("Der Wert `[x]` und ``a`b`` gilt.\n", "DER WERT `[x]` UND ``a`b`` GILT.\n"),
    headings=("# Ein Hund #\n\nEine Katze\n----------\n", "# EIN HUND #\n\nEINE KATZE\n----------\n"),
    tables=("| Ein | Hund |\n|:--|--:|\n| eine `a\\|b` | Katze \\| Hut |\n", "| EIN | HUND |\n|:--|--:|\n"),
    html=('<div align="center">\n  <b>ein Hund</b>\n</div>\n\nEine <kbd>Strg</kbd> Katze<br>\n',
    "<b>EIN HUND</b>\n</div>\n\nEINE <kbd>"),
    hard_wraps=("Ein Hund läuft\ndurch das Gras und\nbellt.\n", "EIN HUND LÄUFT\nDURCH DAS GRAS UND\nBELLT.\n"),
    hard_wraps_in_a_quotation=("> Ein Hund läuft\n> durch das Gras.\n", "> EIN HUND LÄUFT\n> DURCH DAS GRAS.\n"),
    no_line_end_is_added=("Ein Hund", "EIN HUND"),
    code_at_the_beginning=("`a`: setzt `b` auf `c`.\n\n`x`/`y` gelten.\n",
    "`a`: SETZT `b` AUF `c`.\n\n`x`/`y` GELTEN.\n"),
    signs_that_hide_an_address=("Ein Paket vfile\\@7.0.4 (*neu*).\n", "EIN PAKET VFILE\\@7.0.4 (*NEU*).\n"),
    autolinks=("Siehe <https://example.org/ein> und https://example.org/hund.\n",
    "<https://example.org/ein> UND https://example.org/hund."),
    an_address_before_signs=("**Ein Hund: https://example.org/hund.** [https://a.org/b](https://a.org/b) Katze\n",
    "**EIN HUND: https://example.org/hund.** [https://a.org/b](https://a.org/b) KATZE\n"),
    a_paragraph_of_an_item=("*   Ein Hund.\n\n    Eine Katze schläft im\n    Gras.\n",
    "*   EIN HUND.\n\n    EINE KATZE SCHLÄFT IM\n    GRAS.\n"),
    an_address_with_spaces=("Ein [Hut](<a b> 'ein Hut' ) [oder]( x.html ).\n",
    "EIN [HUT](<a b> 'ein Hut' ) [ODER]( x.html ).\n"),
    code_after_a_heading=("Ein Hund\n---\n\tein Hut\n\n# Ein Rad\n    ein Hut\n",
    "EIN HUND\n---\n\tein Hut\n\n# EIN RAD\n    ein Hut\n"),
    code_after_a_tab=("Ein Hund\n\n\tein Hut\n\n- Ein\n\n\tHund\n\n\t\tein Hut\n",
    "EIN HUND\n\n\tein Hut\n\n- EIN\n\n\tHUND\n\n\t\tein Hut\n"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "expected"),
    {
        "2024. Ein Hund": "2024\\. Ein Hund", "1) Hund": "1\\) Hund", "- Hund": "\\- Hund", "# Hund": "\\# Hund",
        "> Hund": "\\> Hund", "+ Hund": "\\+ Hund", "* Hund": "\\* Hund", "2024.5 Hund": "2024.5 Hund", "-x": "-x",
    }.items(),
)  # fmt: skip
def test_a_translation_that_begins_as_a_list_does_stays_a_paragraph(answer: str, expected: str) -> None:
    text = b"* Eine Katze\n\nEine Katze schl\xc3\xa4ft.\n"
    data, report = read_document(text, Path("x.md")).translate(lambda given: [Answer(answer) for _ in given], "en")
    assert data.decode() == f"* {expected}\n\n{expected}\n"
    assert [unit.text for unit in report.units] == [answer] * 2


def test_the_space_before_a_word_is_outside_of_its_mark() -> None:
    """`* Hund*` is no emphasis: the space that parts it from code stands before the mark."""
    answer = Answer("Hund :", ((0, 4),))
    data, _ = read_document(b"`a`: *Ein* Hund.\n", Path("x.md")).translate(lambda _: [answer], "en")
    assert data == b"`a` *Hund* :\n"


def test_a_link_whose_text_is_its_label_names_it_after_its_translation() -> None:
    text = "Ein [Roter  Hund][], ein ![Hut] und [sic].\n\n[roter hund]: a.html\n  [Hut]: b.png 'ein Hut'\n"
    said, _ = said_of(text.encode(), "x.md")
    assert said.partition("\n")[0] == "EIN [ROTER HUND][Roter Hund], EIN ![HUT][Hut] UND [SIC]."
    assert said.partition("\n")[2] == text.partition("\n")[2]
    assert read_document(text.encode(), Path("x.md")).translate(identity, "de")[0].decode() == text


@pytest.mark.parametrize("row", MARKDOWN)
def test_markdown(row: str) -> None:
    source, expected = MARKDOWN[row]
    text, _ = said_of(source.encode(), "x.md")
    assert expected in text
    assert text.lower() == source.lower()


def test_a_long_translation_is_wrapped_at_the_width_found_with_the_same_prefixes() -> None:
    source = "> Ein Hund läuft durch\n> das Gras und bellt.\n"

    def twice(given: Sequence[TextSegment]) -> list[Answer]:
        return [Answer(f"{each.text} {each.text}", each.marks) for each in given]

    found, _ = read_document(source.encode(), Path("x.md")).translate(twice, "en")
    lines = found.decode().splitlines()
    assert all(line.startswith("> ") and len(line) <= len("> Ein Hund läuft durch") for line in lines)
    assert len(lines) == 4


PLAIN = rows(
    a_title_with_an_underline=("Ein Titel\n=========\n\nEin Hund.\n", "EIN TITEL\n=========\n\nEIN HUND.\n"),
    bullets=("* Ein Hund\n* Eine Katze\n  mit Hut\n", "* EIN HUND\n* EINE KATZE\n  MIT HUT\n"),
    indentation=("Ein Hund\n\n    Eine Katze\n", "EIN HUND\n\n    EINE KATZE\n"),
    a_form_feed=("Ein Hund\n\fEine Katze\n", "EIN HUND\n\fEINE KATZE\n"),
    a_signature=("Ein Hund\n-- \nHans Mann\n", "EIN HUND\n-- \nHans Mann\n"),
    verse=("Ein Hund im Gras\nEine Katze am Tor\nEin Hut im Wind\n", "EIN HUND IM GRAS\nEINE KATZE AM TOR\n"),
    line_ends=("Ein Hund\r\n\r\nEine Katze", "EIN HUND\r\n\r\nEINE KATZE"),
)  # fmt: skip


@pytest.mark.parametrize("row", PLAIN)
def test_plain_text(row: str) -> None:
    source, expected = PLAIN[row]
    text, _ = said_of(source.encode(), "x.txt")
    assert expected in text
    assert text.lower() == source.lower()


HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: nplurals=2; plural=n>1;\\n"\n\n'
CATALOGUES = rows(
    plural_forms=(
        'msgid "%d Hund"\nmsgid_plural "%d Hunde"\nmsgstr[0] ""\nmsgstr[1] ""\n',
        'msgstr[0] "%d HUND"\nmsgstr[1] "%d HUNDE"\n',
    ),
    done=('msgid "ein"\nmsgstr "one"\n\nmsgid "zwei Hunde"\nmsgstr ""\n', 'msgstr "one"'),
    fuzzy=('#, fuzzy\n#| msgid "alt"\nmsgid "ein"\nmsgstr "one"\n\nmsgid "zwei"\nmsgstr ""\n',
    '#, fuzzy\n#| msgid "alt"\nmsgid "ein"\nmsgstr "one"\n'),
    wraps_of_others=('#: a.c:1 b.c:2\nmsgid ""\n"ein "\n"Hund"\nmsgstr ""\n"one "\n"dog"\n\nmsgid "zwei"\nmsgstr ""\n',
    'msgid ""\n"ein "\n"Hund"\nmsgstr ""\n"one "\n"dog"\n'),
    printf=('#, c-format\nmsgid "%1$s hat %2$d Hunde und 5%% mehr"\nmsgstr ""\n',
    'msgstr "%1$s HAT %2$d HUNDE UND 5%% MEHR"'),
    python=('#, python-format\nmsgid "%(name)s hat Hunde"\nmsgstr ""\n', 'msgstr "%(name)s HAT HUNDE"'),
    an_accelerator=('msgid "_Datei"\nmsgstr ""\n', 'msgstr "_DATEI"'),
    an_accelerator_of_qt=('msgid "&Datei"\nmsgstr ""\n', 'msgstr "&DATEI"'),
    old_lines_behind_an_empty_string=('msgid "ein Hund"\nmsgstr ""\n""\n\nmsgid "zwei"\nmsgstr ""\n',
    'msgstr "EIN HUND"\n\nmsgid "zwei"'),
    obsolete=('msgid "ein Hund"\nmsgstr ""\n\n#~ msgid "alt"\n#~ msgstr "old"\n#~| msgid "x"\n',
    '#~ msgid "alt"\n#~ msgstr "old"\n#~| msgid "x"\n'),
    two_contexts=('msgctxt "a"\nmsgid "Hund"\nmsgstr ""\n\nmsgctxt "b"\nmsgid "Hund"\nmsgstr ""\n',
    'msgctxt "b"\nmsgid "Hund"\nmsgstr "HUND"'),
    plural_forms_without_a_header=(
        'msgid "ein"\nmsgid_plural "zwei"\nmsgstr[0] ""\n\nmsgid "ein Hund"\nmsgstr ""\n', 'msgstr[0] ""\n',
    ),
    numbers_of_fixed_width=('#, c-format\nmsgid "%<PRIuMAX> Hunde"\nmsgstr ""\n', 'msgstr "%<PRIuMAX> HUNDE"'),
    a_line_end_at_the_end=('msgid "ein Hund\\n"\nmsgstr ""\n', 'msgstr "EIN HUND\\n"'),
)  # fmt: skip


@pytest.mark.parametrize("row", CATALOGUES)
def test_catalogues(row: str) -> None:
    source, expected = CATALOGUES[row]
    text, _ = said_of((HEADER + source).encode(), "x.po")
    assert expected in text
    assert text.startswith(HEADER)


def test_placeholders_with_a_rank_keep_their_order() -> None:
    source = HEADER + '#, c-format\nmsgid "ein %s hat %d Hunde"\nmsgstr ""\n'
    found, report = read_document(source.encode(), Path("x.po")).translate(reverse_words, "en")
    assert 'msgstr "%s Hunde %d hat ein"' in found.decode()
    (unit,) = report.flagged
    assert unit.flags == ("the placeholders are in the order of the source: check their places",)


def test_an_accelerator_stays_before_a_letter() -> None:
    source = HEADER + 'msgid "_Unix (LF)"\nmsgstr ""\n'
    assert 'msgstr "(LF) _Unix"' in read_document(source.encode(), Path("x.po")).translate(reverse_words)[0].decode()


@pytest.mark.parametrize(
    ("said", "target", "written"),
    [
        (" \\n", "en-GB", " en_GB\\n"),
        ("\\n", "en", " en\\n"),
        (" de\\n", "en", " en\\n"),
        (" pt_BR\\n", "pt", " pt_BR\\n"),
        (" \\n", "", " \\n"),
        (" sr@latin\\n", "", " sr@latin\\n"),
    ],
)
def test_the_language_of_a_catalogue_is_that_of_the_translation(said: str, target: str, written: str) -> None:
    source = 'msgid ""\nmsgstr ""\n"Language:{}"\n\nmsgid "ein Hund"\nmsgstr ""\n'
    found, _ = read_document(source.format(said).encode(), Path("x.po")).translate(identity, target)
    assert f'"Language:{written}"' in found.decode()


def test_the_only_form_of_a_language_without_plurals_is_that_of_the_plural() -> None:
    header = 'msgid ""\nmsgstr "Plural-Forms: nplurals=1; plural=0;\\n"\n\n'
    source = header + 'msgid "ein Hund"\nmsgid_plural "%d Hunde"\nmsgstr[0] ""\n'
    assert 'msgstr[0] "%d HUNDE"' in read_document(source.encode(), Path("x.po")).translate(uppercase)[0].decode()


def test_a_catalogue_in_another_encoding_is_refused() -> None:
    source = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-2\\n"\n\nmsgid "Mädchen"\nmsgstr ""\n'
    with pytest.raises(DataError, match="in the encoding ISO-8859-2, and only UTF-8 is read"):
        read_document(source.encode("iso-8859-2"), Path("x.po"))


def xliff(units: str, more: str = "", version: str = "1.2") -> bytes:
    names = f'xmlns="urn:oasis:names:tc:xliff:document:{version}" version="{version}"'
    if version == "1.2":
        of_file = '<file original="a" source-language="de" target-language="en" datatype="x">'
        return f"<xliff {names}>{of_file}<body>{units}</body></file>{more}</xliff>".encode()
    return f'<xliff {names} srcLang="de" trgLang="en"><file id="f">{units}</file></xliff>'.encode()


EXCHANGE = {
    "inline elements": (
        xliff('<trans-unit id="1"><source>Ein <g id="1">roter <x id="2"/></g> Hut <bpt id="3">&lt;b&gt;</bpt>liegt'
              '<ept id="3">&lt;/b&gt;</ept>.</source></trans-unit>'),
        '<target>EIN <g id="1">ROTER <x id="2"/></g> HUT <bpt id="3">&lt;b&gt;</bpt>LIEGT<ept id="3">&lt;/b&gt;'
        '</ept>.</target>',
    ),
    "elements of 2.0": (
        xliff('<unit id="1"><segment><source>Ein <pc id="1">roter</pc> Hut<ph id="2"/> <sc id="3"/>liegt<ec '
              'startRef="3"/>.</source></segment></unit>', version="2.0"),
        '<target>EIN <pc id="1">ROTER</pc> HUT<ph id="2"/> <sc id="3"/>LIEGT<ec startRef="3"/>.</target>',
    ),
    "a target behind the source": (
        xliff('<trans-unit id="1"><source>ein Hund</source><alt-trans><target>old</target></alt-trans></trans-unit>'),
        "<source>ein Hund</source><target>EIN HUND</target><alt-trans><target>old",
    ),
    "a state of 1.2": (
        xliff('<trans-unit id="1"><source>ein Hund</source><target state="new"/></trans-unit>'),
        '<target state="translated">EIN HUND</target>',
    ),
    "a state of 2.0": (
        xliff('<unit id="1"><segment state="initial"><source>ein Hund</source></segment></unit>', version="2.0"),
        '<segment state="translated"><source>ein Hund</source><target>EIN HUND</target>',
    ),
    "white space that is preserved": (
        xliff('<group xml:space="preserve"><trans-unit id="1"><source>  ein\n  Hund </source></trans-unit></group>'),
        "<target>  EIN\n  HUND </target>",
    ),
    "several files": (
        xliff('<trans-unit id="1"><source>ein Hund</source></trans-unit>', '<file original="b" source-language="de" '
                                                                           'target-language="en" datatype="x"><body>'
                                                                           '<trans-unit id="1"><source>eine Katze'
                                                                           '</source></trans-unit></body></file>'),
        "<source>eine Katze</source><target>EINE KATZE</target>",
    ),
    "protected units": (
        xliff('<trans-unit id="1" translate="no"><source>ein</source></trans-unit><trans-unit id="2"><source>ein '
              'Hund</source></trans-unit>'),
        'translate="no"><source>ein</source></trans-unit>',
    ),
    "approved units": (
        xliff('<trans-unit id="1" approved="yes"><source>ein</source><target/></trans-unit><trans-unit id="2">'
              '<source>ein Hund</source></trans-unit>'),
        "<source>ein</source><target/></trans-unit>",
    ),
    "character data": (xliff('<trans-unit id="1"><source><![CDATA[ein Hund & Hut]]></source></trans-unit>'),
    "<target>EIN HUND &amp; HUT</target>"),
}  # fmt: skip


@pytest.mark.parametrize("row", EXCHANGE)
def test_xliff(row: str) -> None:
    source, expected = EXCHANGE[row]
    assert expected in said_of(source, "x.xliff")[0]


def test_tmx_whose_header_and_variants_name_other_regions_is_filled() -> None:
    source = (
        '<!DOCTYPE tmx SYSTEM "http://example.org/tmx14.dtd"><tmx version="1.4"><header srclang="de-DE"/><body><tu>'
        "<tuv "
        'xml:lang="de"><seg>ein <bpt i="1"/>Hund<ept i="1"/></seg></tuv><tuv xml:lang="en-GB"><seg/></tuv></tu>'
        "</body></tmx>"
    )
    text, _ = said_of(source.encode(), "x.tmx")
    assert '<tuv xml:lang="en-GB"><seg>EIN <bpt i="1"/>HUND<ept i="1"/></seg></tuv>' in text


VALUES = {
    "ICU plural": ("x.json", '{"a": "{n, plural, one {ein Hund} other {# Hunde}}"}',
    '"{n, plural, one {EIN HUND} other {# HUNDE}}"'),
    "ICU select in a plural": (
        "x.json", '{"a": "{g, select, male {{n, plural, =0 {kein Hund} other {# Hunde}}} other {ein Hut}}"}',
        '"{g, select, male {{n, plural, =0 {KEIN HUND} other {# HUNDE}}} other {EIN HUT}}"',
    ),
    "i18next": ("x.json", '{"a_one": "{{count}} Hund, $t(b)", "b_other": "ein <0>Hut</0>"}',
    '{"a_one": "{{count}} HUND, $t(b)", "b_other": "EIN <0>HUT</0>"}'),
    "layout": ("x.json", '{\r\n\t"b" : "ein\\/Hund geht" ,"a":[ "eine Katze",1.50,1E5 ] }',
    '{\r\n\t"b" : "EIN\\/HUND GEHT" ,"a":[ "EINE KATZE",1.50,1E5 ] }'),
    "values that are no text": (
        "x.json", '{"a": "de-DE", "b": "#ff00aa", "c": "https://example.org/a", "d": "./ein/hund.png", "e": '
                  '"2024-05-01", "f": "42", "g": "{name}", "h": "btn-primary", "i": "ein Hund"}',
        '{"a": "de-DE", "b": "#ff00aa", "c": "https://example.org/a", "d": "./ein/hund.png", "e": "2024-05-01", '
        '"f": "42", "g": "{name}", "h": "btn-primary", "i": "EIN HUND"}',
    ),
    "comments and anchors": ("x.yaml", "# ein\na: &x ein Hund # ein\nb: *x\n'c': 'ein Hut'\n",
    "# ein\na: &x EIN HUND # ein\nb: *x\n'c': 'EIN HUT'\n"),
    "kinds of quotes": ("x.yaml", 'a: ein\\n Hund\nb: "ein\\nHund geht"\n', 'a: EIN\\N HUND\nb: "EIN\\nHUND GEHT"\n'),
    "a folded text": ("x.yaml", "a: >\n  ein Hund läuft\n  durch das Gras\n\n  und bellt\n",
    "a: >\n  EIN HUND LÄUFT\n  DURCH DAS GRAS\n\n  UND BELLT\n"),
    "a scalar over several lines": ("x.yaml", "a: ein Hund\n  läuft schnell\nb: 'eine Katze\n  schläft'\n",
    "LÄUFT SCHNELL"),
    "types": ("x.yaml", "a: no\nb: 010\nc: 12:30\nd: ~\ne: 2024-05-01\nf: ein Hund\n",
    "a: no\nb: 010\nc: 12:30\nd: ~\ne: 2024-05-01\nf: EIN HUND\n"),
    "properties in Latin-1": ("x.properties", "a=ein M\\u00e4dchen\nb = eine K\\u00fcche",
    "a=EIN M\\u00C4DCHEN\nb = EINE K\\u00DCCHE".replace("\\u00C4", "\\u00c4").replace("\\u00DC", "\\u00dc")),
    "properties in UTF-8": ("x.properties", "a=ein Mädchen\n", "a=EIN MÄDCHEN\n"),
    "a space at the beginning": ("x.properties", "a=\\ ein {0} Hund\n", "a=\\ EIN {0} HUND\n"),
    "apostrophes of MessageFormat": ("x.properties", "a=das ist''s, {0}\nb=das ist's\n",
    "a=DAS IST''S, {0}\nb=DAS IST'S\n"),
}  # fmt: skip


@pytest.mark.parametrize("row", VALUES)
def test_values(row: str) -> None:
    name, source, expected = VALUES[row]
    assert expected in said_of(source.encode(), name)[0]


def test_the_number_of_a_plural_is_no_text() -> None:
    """`#` stands for the number: it is not sent to the model, which could leave it out."""
    sent: list[str] = []

    def translate(segments: Sequence[TextSegment]) -> list[Answer]:
        sent.extend(segment.text for segment in segments)
        return uppercase(segments)

    source = '{"a": "{n, plural, one {# Hund läuft} other {im Gras # Hunde {g, select, x {# da} other {dort}}}}"}'
    found, _ = read_document(source.encode(), Path("x.json")).translate(translate, "en")
    written = '{"a": "{n, plural, one {# HUND LÄUFT} other {IM GRAS # HUNDE {g, select, x {# DA} other {DORT}}}}"}'
    assert found.decode() == written
    assert not any("#" in text for text in sent)


@pytest.mark.parametrize(
    "answer", ["no", "on", "12:30", "%abc", "a: b", "~", "- a", "a #b", "'", "", "1.5", "null", "@a", "a\nb"]
)
def test_a_translation_that_yaml_would_read_as_another_type_is_quoted(answer: str) -> None:
    found, _ = read_document(b"a: ein Hund\nb: [ein Hut, 1]\n", Path("x.yaml")).translate(
        lambda given: [Answer(answer) for _ in given], "en"
    )
    expected = answer or "ein"
    values = yaml.safe_load(found)
    assert isinstance(values["a"], str)
    assert values["a"].startswith(expected)
    assert isinstance(values["b"][0], str)


def test_a_message_that_gains_an_apostrophe_gets_two() -> None:
    found, _ = read_document(b"a=der Hund von {0}\n", Path("x.properties")).translate(
        lambda given: [Answer("the dog's", ()) for _ in given], "en"
    )
    assert found == b"a=the dog''s {0}\n"


def cues(*texts: str) -> str:
    return "".join(f"{9 - n}\n00:00:0{n},000 --> 00:00:0{n + 1},000\n{text}\n\n" for n, text in enumerate(texts))


SUBTITLES = {
    "numbers are text to copy": ("x.srt", cues("Ein Hund.", "Eine Katze."), cues("EIN HUND.", "EINE KATZE.")),
    "an empty line in a cue": ("x.srt", cues("Ein Hund.\n\nEine Katze.", "Ein Hut."), cues("EIN HUND.\n\nEINE KATZE.",
    "EIN HUT.")),
    "three lines": ("x.srt", cues("Ein Hund\nläuft\nschnell.", "Ein Hut."), "LÄUFT"),
    "a sentence over two cues": ("x.srt", cues("Ein Hund läuft", "durch das Gras.", "Ein Hut."), cues("EIN HUND LÄUFT",
    "DURCH DAS GRAS.",
    "EIN HUT.")),
    "tags": ("x.srt", cues('<font color="#f00">Ein Hund.</font>', "{\\an8}<b>Ein Hut.</b>"), cues(
    '<font color="#f00">EIN HUND.</font>', "{\\an8}<b>EIN HUT.</b>")),
    "two speakers": ("x.srt", cues("- Ein Hund.\n- Eine Katze."), cues("- EIN HUND.\n- EINE KATZE.")),
    "sounds and names": ("x.srt", cues("[MUSIK]", "HANS: Ein Hund."), "HANS: EIN HUND."),
    "an ampersand": ("x.srt", cues("Ein Hund & Hut."), cues("EIN HUND & HUT.")),
    "an ampersand in vtt": ("x.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nEin Hund &amp; Hut.\n", "EIN HUND &amp; HUT."),
    "header, notes and styles": (
        "x.vtt", "WEBVTT - ein\nKind: ein\n\nNOTE ein\n\nSTYLE\n::cue(.ein) {}\n\nREGION\nid:ein\n\nein\n00:01.000 "
                 "--> 00:02.000 line:0\n<v Ein><c.x>Ein Hund.</c></v>\n",
        "WEBVTT - ein\nKind: ein\n\nNOTE ein\n\nSTYLE\n::cue(.ein) {}\n\nREGION\nid:ein\n\nein\n00:01.000 --> "
        "00:02.000 line:0\n<v Ein><c.x>EIN HUND.</c></v>\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", SUBTITLES)
def test_subtitles(row: str) -> None:
    name, source, expected = SUBTITLES[row]
    text, _ = said_of(source.encode(), name)
    assert expected in text
    assert text.count("-->") == source.count("-->")


def test_a_cue_with_text_keeps_text_and_lines_stay_short() -> None:
    source = cues("Ein Hund läuft", "durch", "das Gras.")

    def longer(given: Sequence[TextSegment]) -> list[Answer]:
        return [Answer(" ".join(["wort"] * 30), tuple((3, 3) for _ in each.marks)) for each in given]

    found, _ = read_document(source.encode(), Path("x.srt")).translate(longer, "en")
    blocks = found.decode().strip().split("\n\n")
    assert [block.count("-->") for block in blocks] == [1, 1, 1]
    assert all("wort" in block for block in blocks)
    assert max(len(line) for line in found.decode().splitlines()) <= 42


def test_a_text_without_letters_is_not_sent() -> None:
    seen = list[str]()

    def remember(given: Sequence[TextSegment]) -> list[Answer]:
        seen.extend(each.text for each in given)
        return identity(given)

    _, report = read_document(b"<p>&amp;<p>***<p>&rarr; 42<p>Ein Hund", Path("x.html")).translate(remember, "en")
    assert seen == ["Ein Hund"]
    assert (report.translated, report.left) == (1, 3)
