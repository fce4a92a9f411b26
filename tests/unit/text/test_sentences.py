"""The sentences of a line: whatever the script, and wherever the segmenter below is known to err."""

import re
import unicodedata
from collections.abc import Callable
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.text.sentences import (
    SCRIPTS,
    detect_main_script,
    ends_as_sentence,
    space_between,
    split_sentences,
    writes_spaces,
)

PARTED = [
    ["Ein Mann läuft. ", "Eine Frau lacht!"],
    ["Am 3. Mai 2021 kam er. ", "Dann ging er."],
    ["Dr. Müller ist z. B. da. ", "Er sagt: „Ja.“ ", "Dann geht er."],
    ["ein mann läuft. ", "eine frau lacht."],
    ["M. Dupont est là. ", "Il rit."],
    ["Mme. Dupont et M. Martin sont venus. ", "Bien."],
    ['Mr. Smith said "Yes." to her. ', "He slept."],
    ['"Yes." he said. ', "OK."],
    ["J. R. R. Tolkien wrote. ", "He died."],
    ["Wait... what? ", "No! ", "It costs $3.50."],
    ["1. First. ", "2. Second."],
    ["He left.  ", "She came.\t", "They stayed. "],
    ["오늘은 날씨가 좋다. ", "산책을 가자!"],
    ['"그래요." 하고 말했다. ', "그는 갔다."],
    ['"그래요."라고 말했다. ', "그는 갔다."],
    ["“가자.” ", "한 남자가 말했다."],
    ["“가자.” ", "고양이가 말했다."],
    ["그는 왔다. ", "2021. 5. 3. 서울에서."],
    ["今日は晴れ。", "明日は雨？", "そうだ！"],
    ["「はい。」と言った。", "彼は行った。"],
    ["彼は「行く！」と叫んだ。", "「いいえ。」"],
    ["「はい。」", "でも彼は行った。"],
    ["他来了。", "她走了！", "真的吗？"],
    ["यह अच्छा है। ", "वह गया।"],
    ["डॉ. राम आए। ", "वे गए।"],
    ["ذهب د. أحمد. ", "ثم عاد؟ ", "نعم."],
    ["Он пришёл. ", "А. С. Пушкин писал."],
    ["Τι κάνεις; ", "Καλά."],
    # Ordinal numbers, or numbers at the end of a sentence.
    ["Der 5. Mann in der Reihe trägt einen Hut. ", "Er lacht."],
    ["Am Montag, dem 12. November, kam er. ", "Im 2. Weltkrieg nicht."],
    ["der 3. Band, die 4. Seite und das 19. Jahrhundert"],
    ["Almanya 2. Dünya Savaşı'nda yenildi. ", "Bu doğru."],
    ["A 3. és 4. alakban a 2. Magyar Hadsereg."],
    ["v 19. století žil malíř, dne 5. května přišel."],
    ["im 2. weltkrieg. ", "dann nicht."],
    ["2021. május 5. volt, a 2. ajtó."],
    ["Im XX. Jahrhundert lebte Karel IV. Lucemburský."],
    ["In der %u. Formatanweisung ist das 0. Argument. ", "Bitte prüfen."],
    ["Der Preis beträgt 5. ", "Das ist viel."],
    ["Die Voreinstellung ist 6. ", "Beachten Sie das."],
    ["Er wohnt in der Hauptstr. 5. ", "Sie lebt dort."],
    ["He came in 1990. ", "Peter came later."],
    ["the price is 5. ", "that is a lot."],
    ["O 1.º andar e a 5.ª Avenida. ", "São belos."],
    # Abbreviations, or words at the end of a sentence.
    ["Am 3. Okt. 1990 war es. ", "Am 24. Dez. 2020 nicht."],
    ["Die Fa. Meier, Inh. Peter Vogt, geb. Schmidt, zahlt. ", "Sie lacht."],
    ["Der Hl. Geist, inkl. Mwst. und Versand. ", "Zzgl. MwSt. und Porto."],
    ["Dipl.-Ing. Meier wohnt in der Goethestr. Ecke Markt. ", "Dr. med. Vogt nicht."],
    ["Sie wohnt in der Goethestr. ", "Das Haus ist alt."],
    ["En 50 av. J.-C. Rome brûla. ", "Elle resta."],
    ["Он жил на ул. им. Ленина. ", "Потом уехал."],
    ["Sn. Ali geldi, örn. Bursa ve Atatürk Cad. No. 5. ", "Sonra gitti."],
    ["die fa. meier und dipl.-ing. vogt. ", "sie zahlen."],
    ["V zemi vládne smrt. ", "Přišel král."],
    ["Das ist ein PDF in UTF-8. ", "Klaus liest es."],
    ["The car is red. ", "Peter likes it."],
    # One syllable, or the number of a line.
    ["네. ", "알겠어요."],
    ["난 안 가. ", "응. ", "안 가."],
    ["가. 신청 방법을 봅니다. ", "나. 대상을 봅니다."],
    ["好. ", "我去."],
    # Texts of programs.
    ["Usage: cp [OPTION]... SOURCE... TARGET"],
    ["返します。", "0の場合です。", "expr = NULLです。"],
    ["空のリンクに `.' を代入します"],
    # Scripts whose marks are others.
    ["လူ၏ အိမ်၊ သွားသည်။ ", "လာသည်။"],
    ["គាត់មក។ ", "នាងទៅ។"],
    ["ሰላም ነው፡፡ ", "ደህና ነው፡፡"],
    ["అతను వచ్చాడు. ", "ఆమె వెళ్ళింది."],
    ["ਉਹ ਆਇਆ। ", "ਉਹ ਗਈ।"],
    ["พ.ศ. 2500 ดร. สมชายมา"],
    ["ⴰⵡⴷ ⵢⴰⵏ. ", "ⵓⵍⴰ ⴰⴷ."],
]


@pytest.mark.parametrize("parts", PARTED, ids="".join)
def test_where_a_line_is_parted(parts: list[str]) -> None:
    assert split_sentences("".join(parts)) == parts


@pytest.mark.parametrize(
    "line", ["", " ", ".", "3. 4. 2021", "\u200b", "?!", "2021년 5월 3일", "3 April 2021", "May 3, 2021"]
)
def test_what_is_one_sentence(line: str) -> None:
    assert split_sentences(line) == [line]


OTHERWISE: dict[str, Callable[[str], str]] = {
    "decomposed": lambda line: unicodedata.normalize("NFD", line),
    "no-break spaces": lambda line: line.replace(" ", "\u00a0"),
    "thin spaces": lambda line: line.replace(" ", "\u2009"),
    "tabs": lambda line: line.replace(" ", "\t"),
    "double spaces": lambda line: line.replace(" ", "  "),
    "edge spaces": lambda line: f"  {line} ",
    "joiners": lambda line: "\ufeff" + line.replace("n", "n\u200d").replace("다", "다\u200b"),
}


def plain(text: str) -> str:
    """Without what a reader does not see."""
    visible = "".join(c for c in unicodedata.normalize("NFC", text) if c not in "\u200b\u200d\ufeff")
    return " ".join(visible.split())


@pytest.mark.parametrize("how", OTHERWISE)
def test_text_that_is_typed_otherwise_is_parted_at_the_same_places(how: str) -> None:
    for parts in PARTED:
        line = OTHERWISE[how]("".join(parts))
        found = split_sentences(line)
        assert "".join(found) == line
        assert [plain(part) for part in found] == [plain(part) for part in parts], line


@given(
    st.text(
        st.characters(exclude_categories=[]) | st.sampled_from(" .!?。”\"'1aA가あ中\u0301\u200b\ud800"), max_size=60
    ),
    st.sampled_from(["", "de", "ko_KR", "deu_Latn", "xx"]),
)
def test_the_sentences_are_the_line(line: str, language: str) -> None:
    found = split_sentences(line, language)
    assert "".join(found) == line
    assert len(found) == 1 or all(any(map(str.isalpha, part)) for part in found)


@pytest.mark.slow
@given(st.text("aBé 1,'’-한の字.!\u0301", max_size=12) | st.from_regex(r"\A[\w ,'’-]*\W? *\Z"))
def test_a_line_without_a_mark_is_passed_over_to_the_same_end(line: str) -> None:
    with patch("pellucid.text.sentences._UNPARTED", re.compile("(?!)")):
        looked_at = split_sentences(line)
    assert split_sentences(line) == looked_at


def test_a_language_that_is_known_decides_alone() -> None:
    line = "Er ist am 3. Mai da."
    assert split_sentences(line, "de_DE") == split_sentences(line) == [line]
    assert split_sentences(line, "en") == ["Er ist am 3. ", "Mai da."]
    assert split_sentences(line, "deu_Latn") == [line], "a code of three letters says nothing"
    assert split_sentences("Er ist der 3. Mann.", "de") == ["Er ist der 3. Mann."]
    assert split_sentences("He came 3. Peter came 2.", "en") == ["He came 3. ", "Peter came 2."], (
        "no ordinals in English"
    )


@pytest.mark.parametrize("piece", ["Ein Mann läuft. ", "a.) ", "M. ", "1. ", "(", '"', "e\u0301 "])
def test_a_long_line_is_parted_in_a_time_that_grows_with_its_length(piece: str) -> None:
    """Counted, not timed: no rule may look back over more of a line than a few characters."""
    line = piece * (30_000 // len(piece))
    assert "".join(split_sentences(line)) == line


@pytest.mark.parametrize("run", [" ", "a", "-", ", "])
def test_a_long_run_before_a_mark_is_looked_at_once(run: str) -> None:
    """A rule that gave back what it had matched would take minutes."""
    line = run * (200_000 // len(run)) + ".) x"
    assert "".join(split_sentences(line)) == line


@pytest.mark.parametrize(
    ("text", "script"),
    [("Ein Mann", "Latin"), ("안녕 Hello 하세요", "Hangul"), ("日本へ行く", "Kana"), ("你好", "Han"),
     ("привет", "Cyrillic"), ("123 !", ""), ("", ""), (unicodedata.normalize("NFD", "안녕"), "Hangul"), ("ᚠᚢᚦ", "")],
)  # fmt: skip
def test_the_script_of_a_text(text: str, script: str) -> None:
    assert detect_main_script(text) == script


def test_each_script_has_languages_that_the_segmenter_knows() -> None:
    from sentencex import segment

    for letters, languages in SCRIPTS.values():
        line = f"{letters[0] * 3}. {letters[0] * 4}."
        assert all("".join(segment(language, line)) == line for language in languages)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Ja.", True),
        ("„Ja!“ ", True),
        ("はい。」", True),
        ("no", False),
        ("3 May 2021", False),
        ("", False),
        ("왜?", True),
    ],
)
def test_how_a_sentence_ends(text: str, ends: bool) -> None:
    assert ends_as_sentence(text) == ends


@pytest.mark.parametrize(
    ("before", "after", "space"),
    [("Ja.", "Nein.", " "), ("그래.", "가자.", " "), ("はい。", "いいえ。", ""), ("你好。", "再见。", ""),
     ("はい。", "OK.", ""), ("สวัสดี", "ครับ", ""), ("彼はJohn Smithと言った。", "そう。", ""), ("1.", "2.", " ")],
)  # fmt: skip
def test_what_stands_between_two_sentences(before: str, after: str, space: str) -> None:
    assert space_between(before, after) == space
    assert writes_spaces(before) or not space
