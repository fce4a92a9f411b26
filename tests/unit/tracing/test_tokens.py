"""Ids as tokens: text, piece, word and specialness, for every kind of tokenizer."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.text.tokenizer import Tokenizer
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.tracing.tokens import Token, make_tokens, tokens_of_ids, tokens_of_pieces

LINES = ["Ein Hund läuft über die 3.5 Wiesen, nicht wahr?", "안녕하세요 세계 日本語", "don't go 1985-05-03"] * 20
SIZES = {"bpe": 380, "unigram": 420, "words": 100, "characters": 400, "bytes": 300, "spaces": 100}
EXACT = {"bpe", "unigram", "characters", "bytes"}


def tokenizer(kind: str) -> Tokenizer:
    """A tokenizer of each kind, with bytes for the unknown where it can have them."""
    with_bytes = kind in EXACT
    default = {"words": True, "spaces": True}.get(kind, with_bytes)
    return train_tokenizer(kind, LINES, vocab_size=SIZES[kind], byte_fallback=default, normalize="none")


def shown(tokens: Sequence[Token]) -> list[tuple[str, int | None]]:
    """Text and word of each."""
    return [(token.text, token.word) for token in tokens]


def words_of(tokens: Sequence[Token]) -> list[str]:
    """The text of each word."""
    numbers = dict.fromkeys(token.word for token in tokens if token.word is not None)
    return ["".join(token.text_in_word for token in tokens if token.word == number) for number in numbers]


@pytest.mark.parametrize("kind", SIZES)
def test_special_tokens_belong_to_no_word(kind: str) -> None:
    made = tokenizer(kind)
    first, *inner, last = make_tokens(made, [made.bos_id, *made.encode("Ein Hund"), made.eos_id])
    for token, text in ((first, "<s>"), (last, "</s>")):
        assert (token.text, token.piece, token.word, token.special) == (text, text, None, True)
    assert inner
    assert not any(token.special for token in inner)
    assert inner[0].word == 0


@pytest.mark.parametrize("kind", SIZES)
def test_words_are_those_of_the_text(kind: str) -> None:
    made = tokenizer(kind)
    text = "Ein Hund , nicht wahr ?" if kind == "words" else "Ein Hund läuft"
    found = words_of(make_tokens(made, made.encode(text)))
    assert [word.strip() for word in found] == text.split()


@pytest.mark.parametrize("kind", sorted(EXACT))
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁\x1b"), max_size=12))
def test_what_the_tokens_add_is_the_text(kind: str, text: str) -> None:
    made = tokenizer_once(kind)
    written = "".join(token.text_in_word for token in make_tokens(made, made.encode(text)) if not token.special)
    assert written in (text, f" {text}")  # SentencePiece puts a space before a text


KEPT: dict[str, Tokenizer] = {}


def tokenizer_once(kind: str) -> Tokenizer:
    """The tokenizer of a kind, trained the first time."""
    if kind not in KEPT:
        KEPT[kind] = tokenizer(kind)
    return KEPT[kind]


def test_marks_and_numbers_are_words_of_their_own() -> None:
    made = tokenizer("characters")
    assert words_of(make_tokens(made, made.encode("don't go 1985-05-03, 3.5"))) == [
        "don", "'", "t", " go", " 1985", "-", "05", "-", "03", ",", " 3.5",
    ]  # fmt: skip


def test_scripts_without_spaces_have_a_word_a_token() -> None:
    made = tokenizer("characters")
    assert words_of(make_tokens(made, made.encode("세계 日本語x"))) == ["세계", " 日", "本", "語", "x"]


def test_a_character_in_several_tokens_is_shown_by_each_and_added_by_the_first() -> None:
    made = tokenizer("bytes")
    found = make_tokens(made, made.encode("a안"))
    assert shown(found) == [("a", 0), ("안[EC]", 0), ("안[95]", 0), ("안[88]", 0)]
    assert [token.text_in_word for token in found] == ["a", "안", "", ""]
    assert [token.piece for token in found] == ["a", "<0xEC>", "<0x95>", "<0x88>"]


def test_bytes_that_spell_no_character_are_shown_as_bytes() -> None:
    made = tokenizer("bytes")
    ids = made.encode("안x")
    assert shown(make_tokens(made, [ids[0], ids[1], ids[3]])) == [("[EC]", 0), ("[95]", 0), ("x", 1)]
    assert shown(make_tokens(made, [ids[0], made.eos_id, ids[1]])) == [("[EC]", 0), ("</s>", None), ("[95]", 1)]


def test_the_models_own_special_ids_are_special() -> None:
    made = tokenizer("characters")
    ids = made.encode("abc")
    assert [token.special for token in make_tokens(made, ids, {ids[1]})] == [False, True, False]


def test_ids_label_where_there_is_no_tokenizer() -> None:
    first, second = tokens_of_ids([7, 2], {2}, [0, 1])
    assert first == Token("7", "7", id=7, word=0)
    assert second == Token("2", "2", id=2, special=True, segment=1)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (
            ["[CLS]", "don", "'", "em", "##bed", "[SEP]", "ok"],
            [("[CLS]", None), ("don", 0), ("'", 1), ("em", 2), ("bed", 2), ("[SEP]", None), ("ok", 3)],
        ),
        (
            ["Hello", "Ġworld", ",", "ìķ", "Ī", "Ċ", "<|endoftext|>"],
            [
                ("Hello", 0),
                (" world", 1),
                (",", 2),
                ("안[EC 95]", 3),
                ("안[88]", 3),
                ("\n", 3),
                ("<|endoftext|>", None),
            ],
        ),
        (["▁Hund", "e", "▁", "안", "<0x41>"], [(" Hund", 0), ("e", 0), (" ", 1), ("안", 1), ("A", 1)]),
        (["hel", "lo</w>", "you</w>"], [("hel", 0), ("lo", 0), ("you", 1)]),
        (["hel@@", "lo", "you"], [("hel", 0), ("lo", 0), ("you", 1)]),
        (["łód", "ka"], [("łód", 0), ("ka", 1)]),
    ],
    ids=["wordpiece", "byte-level", "marks", "word-ends", "continued", "words"],
)
def test_pieces_tell_their_spelling(pieces: list[str], expected: list[tuple[str, int | None]]) -> None:
    found = tokens_of_pieces(pieces)
    assert shown(found) == expected
    assert [token.piece for token in found] == pieces


def test_what_is_special_may_be_told() -> None:
    found = tokens_of_pieces(["<b>", "x"], [4, 5], [False, True], [0, 1])
    assert [(token.special, token.id, token.segment) for token in found] == [(False, 4, 0), (True, 5, 1)]
