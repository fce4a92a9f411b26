"""Encodings that are not UTF-8: which ones a text may be in, whatever spaces and marks stand in it."""

import pytest

from pellucid.files.encodings import ENCODINGS, likely_encodings

TEXTS = {
    "cp949": "모든 인간은 태어날 때부터 자유로우며",
    "gb18030": "人人生而自由，在尊严和权利上一律平等。",
    "big5": "人人生而自由，在尊嚴和權利上一律平等。",
    "cp932": "すべての人間は、生まれながらにして自由",
    "euc-jp": "すべての人間は、自由",
    "cp1252": "Alle Menschen sind frei und gleich an Würde",
    "cp1250": "Wszyscy ludzie rodzą się wolni i równi",
    "iso-8859-2": "Všichni lidé rodí se svobodní a sobě rovní",
    "cp1251": "Все люди рождаются свободными и равными",
    "koi8-r": "Все люди рождаются свободными",
    "iso-8859-5": "Все люди рождаются свободными",
    "cp866": "Все люди рождаются",
    "cp1253": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι",
    "cp1254": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğar",
    "cp1255": "כל בני האדם נולדו בני חורין",
    "cp1256": "يولد جميع الناس أحرارا",
    "cp874": "มนุษย์ทั้งหลายเกิดมามีอิสระ",
    "cp1257": "Visi žmonės gimsta laisvi ir lygūs savo orumu",
}


def named(raw: bytes) -> list[str]:
    return [each.text for each in likely_encodings(raw)]


@pytest.mark.parametrize("space", [" ", "\t", "\u3000", "\u00a0"])
@pytest.mark.parametrize("encoding", TEXTS)
def test_the_encoding_of_a_sentence_is_named(encoding: str, space: str) -> None:
    for text in (TEXTS[encoding], space + TEXTS[encoding].replace(" ", space)):
        try:
            raw = text.encode(encoding)
        except UnicodeEncodeError:  # it has no such space
            continue
        assert raw.decode(encoding) == likely_encodings(raw)[0].text


@pytest.mark.parametrize(
    ("raw", "first"),
    [
        ("안녕".encode("cp949"), "cp949"),
        (b"f\xfcr", "cp1252"),
        (b"It\x92s", "cp1252"),
        ("Привет".encode("cp1251"), "cp1251"),
    ],
)
def test_a_few_letters_leave_it_open_but_the_right_one_is_first(raw: bytes, first: str) -> None:
    assert likely_encodings(raw)[0].encoding.name == first


@pytest.mark.parametrize("raw", [b"\xff", b"\x89PNG\r\n\x1a\n", bytes(range(256)), b"\xed\xa0\x80", "für".encode()])
def test_no_encoding_is_named_where_none_fits(raw: bytes) -> None:
    assert named(raw) == []


def test_equal_texts_are_named_once_and_three_are_named_at_most() -> None:
    likely = likely_encodings("Würde und Größe".encode("iso-8859-15"))
    assert [each.encoding.name for each in likely] == ["cp1252"]
    assert all(len(likely_encodings(bytes([byte]) * 3)) <= 3 for byte in range(128, 256))


@pytest.mark.slow
def test_a_long_text_is_looked_at_in_its_beginning() -> None:
    raw = ("한국어 문장이다 " * 5000).encode("cp949")
    likely = likely_encodings(raw)
    assert likely[0].encoding.name == "cp949"
    assert len(likely[0].text) < 20_000


def test_python_and_iconv_know_the_names() -> None:
    assert all("".encode(encoding.name) == b"" for encoding in ENCODINGS)
