"""What a page is called: the text, as people write it."""

from dataclasses import replace

import pytest

from pellucid.views.texts import LONGEST, text_of
from tests.unit.views.drawn import encoder, tokens, translation


def test_a_translation_is_its_source_and_what_was_written() -> None:
    assert text_of(translation()) == "ein Hund → a dog runs"


def test_two_texts_are_told_apart() -> None:
    found = (*tokens("<c>", "a", "dog", "##s", "<e>"), *tokens("a", "cat", "<e>", segment=1))
    assert text_of(replace(encoder(), sequences={"src": found})) == "a dogs / a cat"


def test_a_long_text_is_cut() -> None:
    found = text_of(encoder(["word"] * 100))
    assert len(found) <= LONGEST
    assert found.endswith("…")


def test_there_may_be_no_text() -> None:
    assert text_of(encoder(["<e>"])) == ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["2016", "-", "03", "-", "18"], "2016-03-18"),
        (["did", "it", "?", "yes", ",", "(", "it", ")", "did", "."], "did it? yes, (it) did."),
        (["ᄒ", "##ᅡ", "##ᆫ", "글"], "한 글"),
    ],
)
def test_words_without_spaces_of_their_own_are_set_apart(words: list[str], text: str) -> None:
    found = tuple(replace(token, text=token.text.strip()) for token in tokens(*words))
    assert text_of(replace(encoder(), sequences={"src": found})) == text
