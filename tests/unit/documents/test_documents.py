"""Every document of the fixtures: an identity returns it as it was, another translation changes its text alone."""

import io
import random
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from pellucid.documents import markdown
from pellucid.documents.document import ReportedUnit, compare_part, open_document, read_document
from pellucid.documents.properties import encode_properties
from pellucid.documents.spans import Answer, TextSegment
from pellucid.errors import DataError, PellucidError
from tests.fuzz.changing import changed_bytes
from tests.unit.documents.stand_ins import identity, reverse_words, uppercase

FOLDER = Path(__file__).parents[2] / "fixtures" / "documents"
DOCUMENTS = sorted(path.name for path in FOLDER.iterdir() if path.is_file())
FILLED = {"messages.po", "app.xliff", "app2.xlf", "memory.tmx"}
"""The documents whose empty translations are filled."""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_an_identity_returns_the_document(name: str) -> None:
    document = open_document(FOLDER / name)
    data, report = document.translate(identity, document.source or "de")
    if name in FILLED:
        return
    assert report.translated > 0
    assert members(data) == members((FOLDER / name).read_bytes())


@pytest.mark.parametrize("translation", [uppercase, reverse_words])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_translation_keeps_all_but_the_text(
    name: str, translation: Callable[[Sequence[TextSegment]], list[Answer]]
) -> None:
    document = open_document(FOLDER / name)
    data, report = document.translate(translation, "en")  # checked by reading it again
    assert report.translated > 0
    assert [unit for unit in report.units if unit.state == "translated" and unit.flags] == []
    words = {word for unit in report.units for word in unit.text.split()}
    if translation is uppercase and name not in ("memory.tmx",):
        assert words & {"EIN", "EINE"}
    if document.kind not in ("txt", "srt", "vtt"):  # which lines and cues are one unit depends on their text
        assert len(read_document(data, Path(name)).units) == len(report.units)


def members(data: bytes) -> object:
    """Returns the members of an archive with their names, dates and methods; any other document as it is."""
    if not data.startswith(b"PK"):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return [(info.filename, info.date_time, info.compress_type, file.read(info)) for info in file.infolist()]


@pytest.mark.parametrize(
    ("name", "said"),
    {
        "laughs.xliff": "declares the entity `a`",
        "quadratic.tmx": "declares the entity `a`",
        "xxe.docx": "declares the entity `x`",
        "bomb.docx": "compressed to",
        "slip.epub": "leads out of it",
        "encrypted.docx": "is encrypted",
        "encrypted.odt": "is encrypted",
        "cut.pptx": "is a damaged archive",
        "many.xlsx": "compressed to",
    }.items(),
)
def test_a_hostile_document_is_refused(name: str, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        open_document(FOLDER / "hostile" / name)
    assert caught.value.hint


def test_deep_json_is_refused() -> None:
    with pytest.raises(DataError, match="more than 1,000 values within each other"):
        open_document(FOLDER / "hostile" / "deep.json")


@pytest.mark.parametrize("name", ["deep.html", "laughs.yaml"])
def test_a_deep_page_and_many_aliases_are_translated_whole(name: str) -> None:
    whole = (FOLDER / "hostile" / name).read_bytes()
    data, report = open_document(FOLDER / "hostile" / name).translate(uppercase, "en")
    assert data.lower() == whole.lower()
    assert report.translated == data.count(b"EIN HUND") == whole.count(b"Ein Hund")


def text_of(
    name: str, translation: Callable[[Sequence[TextSegment]], list[Answer]] = uppercase, member: str = ""
) -> str:
    """Returns a translated document, or a member of it."""
    data, _ = open_document(FOLDER / name).translate(translation, "en")
    if member:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            data = file.read(member)
    return data.decode("latin-1" if "latin1" in name or name.endswith(".properties") else "utf-8-sig")


HOLDS = {
    ("page.html", ""): [
        '<html lang="en">', "<title>KINDER SPIELEN AM STRAND</title>", "mit=dem_ball", "Hund GmbH</span>",
        "EINEM <b>ROTEN</b> <i>HUT</i> SITZT", '<p lang="fr">Un chien court.</p>', "<code>cp der mann</code>",
        'placeholder="EIN BUCH LESEN" value=senden', 'var text = "Ein Hund läuft <b>nicht</b>"',
        "<textarea>Ein Mann liest.</textarea>", 'data-name="Ein Hund"', 'title="ZWEI HUNDE RENNEN ÜBER EINE WIESE."',
    ],
    ("latin1.html", ""): ["EIN HUND LÄUFT DURCH DAS GRAS.\r\n<p>"],
    ("runs.docx", "word/document.xml"): [
        '<w:b/></w:rPr><w:t xml:space="preserve">ROTEN HUT</w:t>', '<w:hyperlink r:id="rId9" w:history="1">',
        "https://example.org/hund?id=7", ">4711<", "<w:tab/>", "<w:br/>", ">EIN HUND LÄUFT DURCH DAS GRAS.</w:t>",
    ],
    ("runs.docx", "word/styles.xml"): ['<w:lang w:val="en" w:eastAsia="en-US" w:bidi="ar-SA"/>'],
    ("parts.docx", "word/document.xml"): ['descr="EIN MÄDCHEN IN EINEM BLAUEN KLEID TANZT."', "footnoteReference"],
    ("parts.docx", "word/footer1.xml"): ["SEITE ", "PAGE", ">1<"],
    ("parts.docx", "word/header1.xml"): ["ZWEI KINDER LAUFEN DURCH DEN REGEN."],
    ("parts.docx", "word/comments.xml"): ["Bitte prüfen."],
    ("changes.docx", "word/document.xml"): [
        "<w:delText>kauft</w:delText>", ">LIEST</w:t></w:r></w:ins>", "<m:t>E=mc</m:t>", "Abbildung 1",
        "EIN JUNGE MIT EINER ROTEN MÜTZE LACHT.",
    ],
    ("cells.xlsx", "xl/sharedStrings.xml"): [
        "<si><t>Tier</t></si>", "<rPr><b/></rPr>", ">A-17<", "  EINE KATZE SITZT AUF EINEM STUHL.\nEIN KIND SCHLÄFT",
    ],
    ("cells.xlsx", "xl/worksheets/sheet1.xml"): ['IF(B2&gt;3,"viele Hunde","ein Hund")', "<t>Nummer</t>", '"ja,nein"'],
    ("cells.xlsx", "xl/tables/table1.xml"): ['name="Anzahl"'],
    ("slides.pptx", "ppt/slides/slide1.xml"): ["AM STRAND",
        "hlinkClick", 'descr="EINE KATZE SITZT AUF EINEM STUHL."', "slidenum"],
    ("slides.pptx", "ppt/notesSlides/notesSlide1.xml"): ["ZWEI MÄNNER SPIELEN FUßBALL"],
    ("slides.pptx", "ppt/charts/chart1.xml"): ["ZWEI HUNDE RENNEN ÜBER EINE WIESE.", "<c:v>Hunde</c:v>"],
    ("page.odt", "content.xml"): [
        '<text:s text:c="2"/>', "EIN ARBEITER STEHT AUF EINER LEITER.", "Bitte prüfen.", "12,5", "<text:page-number",
        'fo:language="en" fo:country="none"',
    ],
    ("page.odt", "styles.xml"): ["ZWEI KINDER LAUFEN DURCH DEN REGEN."],
    ("book.epub", "OPS/book.opf"): ["<dc:title>KINDER SPIELEN AM STRAND</dc:title>", "<dc:language>en</dc:language>"],
    ("book.epub", "OPS/c1.xhtml"): [
        'xml:lang="en" lang="en"', "<style>p { color: red }</style>", '<code>print("Hund")</code>', "<ruby>Hund<rt>",
        'alt="EINE KATZE SITZT AUF EINEM STUHL."', "<sup>1</sup></a>", "<em>ROTEN</em> <strong>HUT</strong>",
    ],
    ("book.epub", "OPS/nav.xhtml"): ['<a href="c1.xhtml#h">KINDER SPIELEN AM STRAND</a>'],
    ("book.epub", "OPS/toc.ncx"): ["<navLabel><text>KINDER SPIELEN AM STRAND</text>"],
    ("readme.md", ""): [
        'title: "KINDER SPIELEN AM STRAND"\nslug: kinder-am-strand', "{#strand}", "**ROTEN** *HUT*", "`cp der mann`",
        "> AUF EINER BÜHNE.", 'hund = "Ein Hund läuft"  # ein Kommentar', "| A \\| B |", "<https://example.org/de>",
        '<div class="x">EIN MANN LIEST EIN BUCH.</div>', "$a_1 * b_1$", "[^n]: EIN ARBEITER", "    eingerückter code",
        "1. [x] ZWEI HUNDE", "![EIN PFERD SPRINGT ÜBER EIN HINDERNIS.](pferd.png)",
    ],
    ("messages.po", ""): [
        '"_BILD ÖFFNEN"', '"&BILD ÖFFNEN"', 'msgstr[1] "%d HUNDE LAUFEN DURCH DAS GRAS."', "{count} BÄLLE ZU {name}.",
        '\\"FUßBALL\\" AUF EINEM FELD.\\n"', 'msgstr "A man is reading."', '#~ msgstr "Old"', "A child is sleeping",
    ],
    ("app.xliff", ""): [
        '<target>EINE FRAU MIT EINEM <g id="1" ctype="bold">ROTEN HUT</g> '
        'SITZT AUF EINER BANK.<x id="2"/></target><alt-trans>',
        '<target state="translated">EIN MANN <bpt id="1">&lt;b&gt;</bpt>SPIELT<ept id="1">', "A child is sleeping.",
        'EIN &lt;i&gt;JUNGE&lt;/i&gt;', '</seg-source><target><mrk mtype="seg" mid="0">DREI MÄNNER',
    ],
    ("app2.xlf", ""): [
        '<pc id="1" dataRefStart="d1" dataRefEnd="d2">ROTEN HUT</pc>', '<sc id="2"/>BALL<ec startRef="2"/>.</target>',
        'state="translated"',
    ],
    ("memory.tmx", ""): ['<tuv xml:lang="en"><seg>EIN HUND LÄUFT DURCH DAS GRAS.</seg></tuv>', "A child is sleeping."],
    ("locale.json", ""): [
        '"bild.titel" : "KINDER', "{count, plural, one {EIN HUND", "} other {# HUNDE LAUFEN", "{{count}}",
        "<1>BANK</1>",
        "$t(bild.titel)", "1.50, 1e3, null, true", "https:\\/\\/example.org", '"#ff0000"', '"de-DE"', "\\ud83d\\udc15",
    ],
    ("locale.yaml", ""): [
        "KINDER SPIELEN AM STRAND   # Kommentar bleibt", "SAGT: ''HALLO''", "basis: &basis", "noch: *basis", "nein: ",
        "zahl: 010, an: on, zeit: 12:30", '"%{name} LIEST EIN BUCH."', "1: ! '4711'",
        "EIN MANN SPIELT GITARRE AUF EINER BÜHNE.\n      EIN KIND",
    ],
    ("messages.properties", ""): [
        "bild.hund:EIN HUND L\\u00c4UFT", "{0,number,integer} B\\u00c4LLE, UND {1}", "DAS IST''S: EIN MANN LIEST {0}.",
        "C:\\\\Bilder\\\\hund.png", "bild.leer=\n", "SCHL\\u00c4FT.\\nEINE KATZE",
    ],
    ("film.srt", ""): [
        "<i>EIN HUND LÄUFT</i>",
        "EINE FRAU MIT EINEM\r\n\r\n3\r\n00:00:04,000 --> 00:00:06,000 X1:10 X2:20\r\nROTEN HUT",
        "- EIN JUNGE WIRFT EINEN BALL.\r\n- EIN KIND", "{\\an8}[MUSIK] ZWEI", '<font color="#ff0000">ANNA:</font> EINE',
    ],
    ("film.vtt", ""): [
        "WEBVTT - Kinder am Strand", "Language: en", "Ein Hund läuft: ein Kommentar",
        "<v Anna>EIN HUND LÄUFT DURCH DAS GRAS.</v>",
        "<c.rot>ROTEN HUT</c>", "<00:00:04.000>", "&amp; LIEST.", "::cue(.rot)", "align:start position:10% line:0",
    ],
    ("letter.txt", ""): [
        "KINDER AM STRAND\r\n====", "  * EIN KIND SCHLÄFT AUF\r\n    EINEM SOFA.", "1) ZWEI HUNDE",
        "> AUF EINER BÜHNE.",
        "\tEINE KATZE", "name@example.org  https://example.org/a_b\r\n-- \r\nAnna",
    ],
}  # fmt: skip
"""What the translation of a document, or of a member of it, holds, with every letter of the text in upper case."""


@pytest.mark.parametrize(("name", "member"), HOLDS)
def test_the_text_of_a_format_is_translated_and_nothing_else(name: str, member: str) -> None:
    text = text_of(name, uppercase, member)
    assert [piece for piece in HOLDS[name, member] if piece not in text] == []


def test_every_document_of_the_fixtures_has_such_a_line() -> None:
    assert {name for name, _ in HOLDS} == set(DOCUMENTS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_fault_in_a_right_answer_is_seen(name: str) -> None:
    """One fault of each kind, in each part: the check sees every one."""
    document = open_document(FOLDER / name)
    segments: list[TextSegment] = []

    def remember(given: Sequence[TextSegment]) -> list[Answer]:
        segments.extend(given)
        return uppercase(given)

    data, report = document.translate(remember, "en")
    again = iter(report.units)
    seen = 0
    for part in document.parts:
        units = [next(again) for _ in part.reading.units]
        right = data if document.archive is None else _member(data, part.name)
        texts = [unit.text for unit in units]
        if not any(unit.state == "translated" for unit in units):
            continue
        assert compare_part(part, right, texts) == ({}, "")
        for fault in faults(right.decode(part.encoding), [unit for unit in units if unit.state == "translated"]):
            with suppress(DataError):  # it may not even be XML, JSON or YAML now
                assert compare_part(part, fault.encode(part.encoding), texts) != ({}, ""), fault
            seen += 1
    assert seen >= 3


def faults(text: str, units: Sequence[ReportedUnit]) -> Iterator[str]:
    """Yields a translated part with one fault each."""
    word = next(word for unit in units for word in unit.text.split() if word.isalpha() and len(word) > 2)
    yield text.replace(word, "", 1)  # a word is lost
    yield text.replace(word, f"{word} {word}", 1)  # a span is doubled
    yield text.replace(word, f"{word}<b", 1) if "<" in text else text.replace(word, f"{word}X", 1)
    at = text.index(word)
    yield f"{text[:at]}{word.lower()}{text[at + len(word) :]}"  # another text
    whole = [unit.text for unit in units if text.count(unit.text) == 1 and "\n" not in unit.text]
    for one, other in pairwise(whole):  # cells are shifted
        if one not in other and other not in one:
            yield text.replace(one, "\1").replace(other, one).replace("\1", other)
            break
    for sign in ("<w:b/>", '"1"', "<x id=", "{count}", "**", "</v>", "<i>", "&basis", ": {", " = ", ">A-17<", "%d "):
        if sign in text:
            yield text.replace(sign, "", 1)  # a mark, a key or a placeholder is lost


def _member(data: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return file.read(name)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_damaged_document_is_read_or_refused_with_a_sentence(name: str) -> None:
    whole = (FOLDER / name).read_bytes()
    try_damaged(whole, name, 6, random.randrange(10**6))


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_and_so_are_many(name: str) -> None:
    try_damaged((FOLDER / name).read_bytes(), name, 500, random.randrange(10**6))


def try_damaged(whole: bytes, name: str, count: int, seed: int) -> None:
    """Reads changed documents and translates them; each ends in a document, or in a sentence."""
    draw = random.Random(seed)
    for _ in range(count):
        data = (
            _damage_member(whole, draw)
            if whole.startswith(b"PK") and draw.random() < 0.8
            else changed_bytes(whole, draw)
        )
        with suppress(PellucidError):
            document = read_document(data, Path(name))
            again, _ = document.translate(reverse_words, "en")
            assert again or not data


def _damage_member(whole: bytes, draw: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as file, zipfile.ZipFile(out, "w") as copy:
        chosen = draw.choice(file.namelist())
        for info in file.infolist():
            content = file.read(info)
            copy.writestr(info, changed_bytes(content, draw) if info.filename == chosen else content)
    return out.getvalue()


def test_attributes_of_members_stay_even_none() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO((FOLDER / "runs.docx").read_bytes())) as file, zipfile.ZipFile(out, "w") as copy:
        for number, info in enumerate(file.infolist()):
            copy.writestr(info, file.read(info))
            info.external_attr = (0, 0o640 << 16)[number % 2]
    data, _ = read_document(out.getvalue(), Path("x.docx")).translate(uppercase, "en")
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        assert [info.external_attr for info in file.infolist()] == [
            (0, 0o640 << 16)[number % 2] for number in range(len(file.infolist()))
        ]


def test_an_answer_without_text_leaves_the_source_and_says_so() -> None:
    data, report = open_document(FOLDER / "latin1.html").translate(lambda given: [Answer("", ()) for _ in given], "en")
    assert [unit.flags for unit in report.flagged] == [("the translation is empty: the source is kept",)] * 3
    assert data == (FOLDER / "latin1.html").read_bytes().replace(b"lang=de", b"lang=en")


@pytest.mark.parametrize("name", ["latin1.html", "messages.po", "runs.docx", "letter.txt", "messages.properties"])
def test_control_characters_of_a_translation_become_spaces(name: str) -> None:
    def answer(given: Sequence[TextSegment]) -> list[Answer]:
        return [replace(each, text=f"\0{each.text}\x1b\uffff") for each in identity(given)]

    data, report = open_document(FOLDER / name).translate(answer, "en")
    assert report.translated > 0
    assert [unit.flags for unit in report.flagged] == []
    assert not set("\0\x1b\uffff") & {letter for unit in read_document(data, Path(name)).units for letter in unit.text}


def test_control_characters_of_a_value_of_properties_stay_escaped() -> None:
    text = "a=ein \\u0000 Hund\n"
    assert read_document(text.encode(), Path("x.properties")).translate(identity, "de")[0].decode() == text
    assert encode_properties("\0\x1b\tä", is_ascii=False, is_message=False) == "\\u0000\\u001b\\tä"


def test_equal_texts_are_translated_once() -> None:
    seen: list[TextSegment] = []

    def remember(given: Sequence[TextSegment]) -> list[Answer]:
        seen.extend(given)
        return identity(given)

    open_document(FOLDER / "book.epub").translate(remember, "en")
    assert len(seen) == len(set(seen))
    assert [each.text for each in seen].count("Kinder spielen am Strand") == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.docx", b"<html><p>Ein Hund</p></html>", "is an HTML page, but its name is that of a Word document"),
        ("x.html", b"%PDF-1.4", "is a PDF document, but its name is that of an HTML page"),
        ("x.docx", b"", "is empty, but its name is that of a Word document"),
        ("x.odt", (FOLDER / "book.epub").read_bytes(), "is an EPUB book, but its name is that of an OpenDocument text"),
        ("x.xlsx", (FOLDER / "runs.docx").read_bytes(), "is a Word document, but its name is that of an Excel"),
        ("x.xyz", b"text", "does not have the name ending of a document"),
        ("x.json", b'{"a": }', "is no JSON: line 1"),
        ("x.yaml", b"a: [1", "is no YAML: line"),
        ("x.po", b"hello\n", "line 1 of the catalogue is no line of gettext"),
        ("x.txt", b"a\0b", "contains a NUL character"),
        ("x.properties", b"a=b\0\xe4", "contains a NUL character"),
        ("x.html", b"<p>b\0\xe4", "contains a NUL character"),
        ("x.md", b"\xff\xfe\xfd", "is not in its encoding"),
    ],
)  # fmt: skip
def test_what_is_no_such_document_is_refused(name: str, content: bytes, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        read_document(content, Path(name))
    assert caught.value.hint


def test_a_translation_that_would_add_a_unit_is_taken_back_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that sees more units in one translation: this translation is found, and the others stay."""
    monkeypatch.setattr(markdown, "encode_markdown", lambda text: text.replace("KATZE", "KATZE\n\n# X\n"))
    text = "Ein Hund läuft.\n\nEine Katze *schläft*.\n\nEin Hut.\n\nEin Rad.\n"
    data, report = read_document(text.encode(), Path("x.md")).translate(uppercase, "en")
    assert data.decode() == "EIN HUND LÄUFT.\n\nEine Katze *schläft*.\n\nEIN HUT.\n\nEIN RAD.\n"
    assert [unit.state for unit in report.units] == ["translated", "failed", "translated", "translated"]
