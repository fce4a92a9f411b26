"""Words as a line's reader counts them."""

import pytest

from pellucid.analysis.line_words import by_spaces
from pellucid.errors import DataError
from pellucid.tracing.trace import Token

END = Token("</s>", "</s>", special=True)


def words(texts, line, numbers=None):
    tokens = [Token(text, text, word=None if numbers is None else numbers[n]) for n, text in enumerate(texts)]
    return [token.word for token in by_spaces([*tokens, END], line)][:-1]


def test_punctuation_goes_with_its_word():
    assert words(["Ein", " Hund", "e", ",", " ja"], "Ein Hunde, ja", [0, 1, 1, 2, 3]) == [0, 1, 1, 1, 2]


def test_spaces_that_are_tokens_go_with_what_stands_before_them():
    assert words(["a", "b", " ", "c"], "ab  c") == [0, 0, 0, 1]
    assert words([" ", "c"], " c") == [0, 0]


def test_a_character_in_bytes_is_one():
    tokens = [Token("안[EC]", "ì", adds="안"), Token("안[95]", "ķ", adds=""), Token("녕", "녕"), Token(" x", "x")]
    assert [token.word for token in by_spaces(tokens, "안녕 x")] == [0, 0, 0, 1]


def test_a_changed_text_keeps_its_words_where_they_are_as_many():
    assert words(["<unk>", "hund"], "Ein Hund", [0, 1]) == [0, 1]
    with pytest.raises(DataError, match="`Ein Hund` has 2 words, but its tokens spell `einhund` in 1 words"):
        words(["einhund"], "Ein Hund", [0])
