"""The words of a training text in their usual forms, and lines that have lost their case, diacritics or letters."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.errors import CheckpointError
from pellucid.text.word_forms import FORMAT, WORD_FORMS, WordForms, save_word_forms

LINES = (
    *3 * ("Ein Mann läuft mit dem Hund über die grüne Straße.", "Der Mann aus den USA hat ein T-Shirt."),
    *5 * ("Zwei Männer schlafen. Die Frau im Park liest.",),
    *3 * ("Das Kind schläft im Stuhl.",),
    "Der Kunde ist da.",
)
FORMS = WordForms.from_lines(LINES)
assert FORMS is not None


def read(line: str, **how: bool) -> str:
    return FORMS.restore(line, **how).text


@pytest.mark.parametrize("line", LINES)
def test_training_lines_are_unchanged(line: str) -> None:
    assert FORMS.restore(line) == FORMS.restore(line, [(0, len(line))])
    assert read(line) == line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("EIN MANN LÄUFT ÜBER DIE STRASSE.", "Ein Mann läuft über die Straße."),
        ("DER MANN AUS DEN USA LIEST", "Der Mann aus den USA liest"),
        ("ZWEI MÄNNER LESEN. DIE FRAU SCHLÄFT!", "Zwei Männer lesen. Die Frau schläft!"),
        ("Ein Mann Läuft Über Die Straße", "Ein Mann läuft über die Straße"),
        ("ein mann hat ein t-shirt.", "Ein Mann hat ein T-Shirt."),
        ("„die frau liest“ im park", "„Die Frau liest“ im Park"),
        ("Ein Mann lauft uber die grüne Straße", "Ein Mann lauft uber die grüne Straße"),  # has one
        ("Ein Mann lauft uber die grune Straße", "Ein Mann läuft über die grüne Straße"),
        ("Ein Mann lauft uber die Strasse", "Ein Mann läuft über die Straße"),
        ("Zwei Maenner auf der gruenen Strasse", "Zwei Männer auf der gruenen Straße"),
        ("Gruene Strasse", "Grüne Straße"),
        ("MANN", "Mann"),
        ("USA", "USA"),
        ("ACME", "ACME"),  # a name, as far as is known
        ("DIE ACME", "Die acme"),
        ("Die Frau Im", "Die Frau Im"),  # too short for a title
        ("mann hund", "mann hund"),
        ("", ""),
        ("42 – 7", "42 – 7"),
        ("김치 맛", "김치 맛"),
    ],
)
def test_case_and_diacritics_are_restored(line: str, expected: str) -> None:
    found = FORMS.restore(line)
    assert (found.text, found.corrected) == (expected, ())
    assert found.is_upper == (line.isupper() and line != expected)


@pytest.mark.parametrize(
    ("line", "expected", "corrected"),
    [
        ("Ein Mann shcläft im Park.", "Ein Mann schläft im Park.", ("shcläft", "schläft")),
        ("Die Frua liest.", "Die Frau liest.", ("Frua", "Frau")),
        ("Die Frau lliest.", "Die Frau liest.", ("lliest", "liest")),
        ("Zwie Männer", "Zwei Männer", ("Zwie", "Zwei")),
        ("ZWEI MÄNNER SHCLAFEN", "Zwei Männer schlafen", ("SHCLAFEN", "schlafen")),
        ("Der Hundd schläft.", "Der Hund schläft.", ("Hundd", "Hund")),
        ("Die Frau leist.", "Die Frau liest.", ("leist", "liest")),
    ],
)
def test_spelling_is_corrected(line: str, expected: str, corrected: tuple[str, str]) -> None:
    found = FORMS.restore(line)
    assert (found.text, found.corrected) == (expected, (corrected,))
    assert FORMS.restore(line, corrects=False).corrected == ()


@pytest.mark.parametrize(
    "line",
    [
        "Der Hunde schläft.",  # an ending may be an inflection
        "Der Funk schläft.",  # another letter is another word
        "Der Kudne schläft.",  # `Kunde` occurs once
        "Die Liest schläft.",  # known
        "Der Herr Schlafne liest.",  # a name: the known word has no capital
        "Ien schläft.",  # too short
        20_000 * "schlafen",  # too long
        "Der Mann {Frua} %(Frua)s www.Frua.de Frua42 Frua_x <Frua>",
    ],
)
def test_spelling_that_stays(line: str) -> None:
    assert FORMS.restore(line) == FORMS.restore(line, corrects=False)
    assert read(line) == line


def test_two_frequent_words_are_no_correction() -> None:
    of_both = WordForms.from_lines(4 * ["Hier ist der Wald."] + 3 * ["Hier ist die Wand."])
    assert of_both is not None
    assert of_both.restore("Hier ist der Walnd.").corrected == ()
    mostly = WordForms.from_lines(15 * ["Hier ist der Wald."] + 3 * ["Hier ist die Wand."])
    assert mostly is not None
    assert mostly.restore("Hier ist der Walnd.").corrected == (("Walnd", "Wald"),)


def test_protected_ranges_stay() -> None:
    line = "EIN MANN LIEST FRUA LÄUFT."
    start = line.index("FRUA")
    assert FORMS.restore(line, [(start, start + 4)]).text == "Ein Mann liest FRUA läuft."


def test_text_without_case_has_no_forms() -> None:
    assert WordForms.from_lines(["ein mann laeuft .", "김치 맛", ""]) is None
    assert WordForms.from_lines([]) is None


def test_lower_case_says_something_where_lines_begin_so() -> None:
    forms = WordForms.from_lines([*3 * ["ein Mann läuft mit dem Hund"], "Ein Mann"])
    assert forms is not None
    assert forms.restore("ein mann läuft mit dem hund").text == "ein mann läuft mit dem hund"
    assert forms.restore("EIN MANN LÄUFT").text == "ein Mann läuft"


def test_unknown_words_are_rare_ones_where_words_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.text.word_forms.MOST_WORDS", 8)
    forms = WordForms.from_lines(LINES)
    assert forms is not None
    assert (len(forms.words), forms.is_complete) == (8, False)
    assert forms.restore("Zwei Männer shclafen.").corrected == ()
    assert forms.restore("DIE FRAU").text == "Die Frau"


def test_other_scripts_with_case() -> None:
    forms = WordForms.from_lines(3 * ["Ο άνθρωπος διαβάζει στο πάρκο.", "Мальчик читает книгу в Москве."])
    assert forms is not None
    assert forms.restore("Ο ΑΝΘΡΩΠΟΣ ΔΙΑΒΑΖΕΙ ΣΤΟ ΠΑΡΚΟ.").text == "Ο άνθρωπος διαβάζει στο πάρκο."
    assert forms.restore("МАЛЬЧИК ЧИТАЕТ КНИГУ В МОСКВЕ.").text == "Мальчик читает книгу в Москве."


@given(st.text(st.sampled_from("aäAÄnNß '-.<>{}0ıİ"), max_size=30))
def test_any_line_is_read_in_the_same_way_twice(line: str) -> None:
    found = FORMS.restore(line)
    assert FORMS.restore(found.text).text == found.text
    assert len(found.text.split()) == len(line.split())


def test_a_folder_keeps_them(tmp_path: Path) -> None:
    assert WordForms.load(tmp_path) is None
    save_word_forms(FORMS, tmp_path)
    assert WordForms.load(tmp_path) == FORMS
    save_word_forms(None, tmp_path)
    assert WordForms.load(tmp_path) is None


@pytest.mark.parametrize(
    "change",
    [
        {"words": {"a b": 1}}, {"words": {"a": "1"}}, {"words": ["a"]}, {"words": {41 * "a": 1}}, {"begins_upper": 1},
        {"format": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_file_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    whole = {"format": FORMAT, "words": {"a": 1}, "begins_upper": True, "is_complete": True}
    (tmp_path / WORD_FORMS).write_text(json.dumps(whole), encoding="utf-8")
    assert WordForms.load(tmp_path) == WordForms({"a": 1}, begins_upper=True, is_complete=True)
    for content in (json.dumps(whole | change), "[]", "{"):
        (tmp_path / WORD_FORMS).write_text(content, encoding="utf-8")
        with pytest.raises(CheckpointError, match=r"word_forms\.json` is damaged"):
            WordForms.load(tmp_path)
