"""Text cut into words and joined again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.text.words import detokenize_words, tokenize_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Two dogs, playing!", ["Two", "dogs", ",", "playing", "!"]),
        ("don't  well-known", ["don", "'", "t", "well", "-", "known"]),
        ("3.5 km, 1,000 at 10:30.", ["3.5", "km", ",", "1,000", "at", "10:30", "."]),
        ("안녕하세요, 세계", ["안녕하세요", ",", "세계"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("cafe\u0301 au lait", ["cafe\u0301", "au", "lait"]),
        ("👨\u200d👩\u200d👧❤\ufe0f👍🏽", ["👨\u200d👩\u200d👧", "❤\ufe0f", "👍🏽"]),
        (" \t\n\u3000", []),
    ],
)
def test_words_and_marks(text: str, words: list[str]) -> None:
    assert tokenize_words(text) == words


@pytest.mark.parametrize(
    "text",
    [
        "Two dogs, playing (with a ball).",
        "It's a well-known t-shirt; isn't it?",
        "3.5 km at 10:30: 100% done!",
        "¿Qué? ¡Sí!",
        "a . b is not a",
    ],
)
def test_ordinary_text_comes_back(text: str) -> None:
    expected = text.replace(" . ", ". ")
    assert detokenize_words(tokenize_words(text)) == expected


@given(st.text())
def test_nothing_but_white_space_is_lost(text: str) -> None:
    assert "".join(tokenize_words(text)) == "".join(text.split())
    assert "".join(detokenize_words(tokenize_words(text)).split()) == "".join(text.split())


@given(st.text(st.sampled_from("ab3 .,'-(❤\ufe0f\u0301\u200d\n\x85\u2028"), max_size=30))
def test_a_word_never_holds_a_separator(text: str) -> None:
    words = tokenize_words(text)
    assert all(word and not any(character.isspace() for character in word) for word in words)
