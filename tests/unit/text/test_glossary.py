"""Which terms a line asks for, and how a tokenizer writes one."""

import pytest

from pellucid.errors import DataError
from pellucid.text.glossary import MOST_WORDS, Glossary, TermSpellings, is_whole_word
from pellucid.text.tokenizer_training import train_tokenizer
from pellucid.text.vocabulary import Vocabulary

PAIRS = [
    ("Hund", "dog"),
    ("Hund", "hound"),
    ("kleiner Hund", "puppy"),
    ("laufen", "run"),
    ("New York", "NY"),
    ("York", "York"),
    ("C++", "C++"),
    ("犬", "dog"),
    ("개", "dog"),
]


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("Ein Hund.", [("dog", "hound")]),
        ("Ein hund, HUND, Hunde, Windhund", []),
        ("Laufen und LAUFEN", [("run",)]),
        ("Ein kleiner Hund und ein Hund", [("puppy",), ("dog", "hound")]),
        ("New York, York", [("NY",), ("York",)]),
        ("Hund Hund", [("dog", "hound")]),
        ("in C++ und C", [("C++",)]),
        ("この犬は", [("dog",)]),
        ("", []),
    ],
)
def test_terms_are_found_as_whole_words_the_longest_first(line: str, asked: list[tuple[str, ...]]) -> None:
    assert Glossary(PAIRS).find_required(line) == asked


def test_a_word_is_whole_where_its_script_has_spaces_and_no_particles() -> None:
    assert [is_whole_word(term) for term in ("dog", "3", "U.S.", "犬", "개", "слон")] == [
        True, True, False, False, False, True,
    ]  # fmt: skip


@pytest.mark.slow
def test_spellings_of_pieces() -> None:
    text = ["the dog and the dogs", "a cat, the cats and a dog", "Dog and cat (the dog)"] * 4
    tokenizer = train_tokenizer("bpe", text, vocab_size=320)
    inside, beginning, others = TermSpellings(tokenizer).spell("dog")
    assert tokenizer.tokens(inside)[0].startswith("▁d")
    assert tokenizer.decode([*tokenizer.encode("a"), *inside]) == "a dog"
    assert [tokenizer.decode(ids) for ids in beginning] == ["Dog"]
    assert others
    for ids in others:
        assert ids != inside
        assert tokenizer.decode([*tokenizer.encode("a"), *ids]) == "a dog"
    continuing = tokenizer.tokens(sorted(TermSpellings(tokenizer).continuing))
    assert "s" in continuing
    assert not any(token.startswith(("▁", ",", "(")) for token in continuing)


def test_spellings_of_characters_and_of_words() -> None:
    letters = Vocabulary("characters", tuple(" abcdeABC"))
    inside, beginning, others = TermSpellings(letters).spell("cab")
    assert letters.tokens(inside) == ["▁", "c", "a", "b"]
    assert [letters.decode(ids) for ids in beginning] == ["cab", "Cab"]
    assert others == []
    words = Vocabulary("words", ("the", "red", "dog", "."))
    assert TermSpellings(words).spell("red dog")[0] == words.encode("red dog")
    assert not TermSpellings(words).continuing


def test_a_term_that_is_too_long_is_refused() -> None:
    Glossary([("a " * MOST_WORDS, "x")])
    with pytest.raises(DataError, match=r"the source term `a a .*` has 257 words or marks; at most 256 are"):
        Glossary([("a " * (MOST_WORDS + 1), "x")])


def test_the_longest_term_is_found_behind_a_longer_beginning() -> None:
    """A line goes along a longer term without reaching its end."""
    glossary = Glossary([("a a b", "three"), ("a", "one"), ("a a a a z", "five")])
    assert glossary.find_required("a a a a a b") == [("one",), ("three",)]
    assert glossary.find_all("a a a b") == {"one", "three"}


def test_marks_stay_with_their_letter() -> None:
    assert Glossary([("字\u20dd", "x")]).find_required("一字\u20dd二") == [("x",)]
    assert Glossary([("字", "x")]).find_required("一字\u20dd二") == []
