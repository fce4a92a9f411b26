"""Where long lines are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.tasks.pieces import cut
from pellucid.text.vocabulary import Vocabulary

BYTES = Vocabulary("bytes", (), byte_fallback=True)


def pieces(text: str, limit: int) -> list[str]:
    """The pieces of a text of single characters, a space shown as ▁."""
    tokens = ["▁" if c == " " else c for c in text]
    return ["".join(text[i] for i in piece) for piece in cut(range(len(text)), tokens, limit)]


@given(text=st.text(alphabet="ab .。", max_size=60), limit=st.integers(1, 20))
def test_pieces_fit_and_join_to_the_whole(text: str, limit: int) -> None:
    found = pieces(text, limit)
    assert "".join(found) == text
    assert all(len(piece) <= limit for piece in found)
    assert all(2 * len(piece) >= limit for piece in found[:-1])  # so there are few


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("", 3, [""]),
        ("abc", 3, ["abc"]),
        ("abcd", 3, ["abc", "d"]),
        ("ab cd ef", 6, ["ab cd", " ef"]),  # between words
        ("abc. de fg", 6, ["abc.", " de fg"]),  # behind a sentence, rather than between words
        ("a. bcdefgh", 7, ["a. bcde", "fgh"]),  # but not in the first half
        ("今日は。明日は雨", 6, ["今日は。", "明日は雨"]),
        ("abcdef gh", 3, ["abc", "def", " gh"]),
    ],
)
def test_where_it_is_cut(text: str, limit: int, expected: list[str]) -> None:
    assert pieces(text, limit) == expected


def test_no_character_is_cut_through() -> None:
    text = "天地玄黃宇宙洪荒"
    ids = BYTES.encode(text)
    found = cut(ids, BYTES.tokens(ids), 10)
    assert [BYTES.decode(piece) for piece in found] == ["天地玄", "黃宇宙", "洪荒"]


def test_tokens_that_are_all_words_are_cut_anywhere() -> None:
    words = ["the", "dog", "runs", "over", "the", "field"]
    assert cut(range(6), words, 4) == [[0, 1, 2, 3], [4, 5]]
