"""The sentences of a line: whatever the script, and wherever the segmenter below is known to err."""

import re
import unicodedata
from collections.abc import Callable
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.text.sentences import SCRIPTS, ends_as_sentence, script_of, sentences, space_between, writes_spaces

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
]


@pytest.mark.parametrize("parts", PARTED, ids="".join)
def test_where_a_line_is_parted(parts: list[str]) -> None:
    assert sentences("".join(parts)) == parts


@pytest.mark.parametrize(
    "line", ["", " ", ".", "3. 4. 2021", "\u200b", "?!", "2021년 5월 3일", "3 April 2021", "May 3, 2021"]
)
def test_what_is_one_sentence(line: str) -> None:
    assert sentences(line) == [line]


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
        found = sentences(line)
        assert "".join(found) == line
        assert [plain(part) for part in found] == [plain(part) for part in parts], line


@given(
    st.text(
        st.characters(exclude_categories=[]) | st.sampled_from(" .!?。”\"'1aA가あ中\u0301\u200b\ud800"), max_size=60
    ),
    st.sampled_from(["", "de", "ko_KR", "deu_Latn", "xx"]),
)
def test_the_sentences_are_the_line(line: str, language: str) -> None:
    found = sentences(line, language)
    assert "".join(found) == line
    assert len(found) == 1 or all(any(map(str.isalpha, part)) for part in found)


@given(st.text("aBé 1,'’-한の字.!\u0301", max_size=12) | st.from_regex(r"\A[\w ,'’-]*\W? *\Z"))
def test_a_line_without_a_mark_is_passed_over_to_the_same_end(line: str) -> None:
    with patch("pellucid.text.sentences._UNPARTED", re.compile("(?!)")):
        looked_at = sentences(line)
    assert sentences(line) == looked_at


def test_a_language_that_is_known_decides_alone() -> None:
    line = "Er ist am 3. Mai da."
    assert sentences(line, "de_DE") == sentences(line) == [line]
    assert sentences(line, "en") == ["Er ist am 3. ", "Mai da."]
    assert sentences(line, "deu_Latn") == [line], "a code of three letters says nothing"


@pytest.mark.parametrize("piece", ["Ein Mann läuft. ", "a.) ", "M. ", "1. ", "(", '"', "e\u0301 "])
def test_a_long_line_is_parted_in_a_time_that_grows_with_its_length(piece: str) -> None:
    """Counted, not timed: no rule may look back over more of a line than a few characters."""
    line = piece * (30_000 // len(piece))
    assert "".join(sentences(line)) == line


@pytest.mark.parametrize("run", [" ", "a", "-", ", "])
def test_a_long_run_before_a_mark_is_looked_at_once(run: str) -> None:
    """A rule that gave back what it had matched would take minutes."""
    line = run * (200_000 // len(run)) + ".) x"
    assert "".join(sentences(line)) == line


@pytest.mark.parametrize(
    ("text", "script"),
    [("Ein Mann", "Latin"), ("안녕 Hello 하세요", "Hangul"), ("日本へ行く", "Kana"), ("你好", "Han"),
     ("привет", "Cyrillic"), ("123 !", ""), ("", ""), (unicodedata.normalize("NFD", "안녕"), "Hangul"), ("ᚠᚢᚦ", "")],
)  # fmt: skip
def test_the_script_of_a_text(text: str, script: str) -> None:
    assert script_of(text) == script


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
