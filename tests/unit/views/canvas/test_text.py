import pytest

from pellucid.tracing.tokens import Token
from pellucid.views.canvas.text import (
    clusters,
    isolate_direction,
    label,
    labels,
    printable,
    shorten,
    text_width,
    visible,
)
from tests.unit.views.drawn import tokens


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("<s>", "<s>"),
        (" ", "␣"),
        ("New York\u00a0City", "New␣York␣City"),
        ("\n", "↵"),
        ("\t", "⇥"),
        ("\0\x1b\x7f", "␀␛␡"),
        ("\ud800\uffff", "��"),
        ("a\u202eb\u2066c", "a[U+202E]b[U+2066]c"),
        ("\u200b\ufeff", "[U+200B][U+FEFF]"),
        ("a\u2068b\u2069", "a[U+2068]b[U+2069]"),
        ("e" + "\u0301" * 1500, "e" + "\u0301" * 6 + "…"),
        ("달력", "달력"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("", ""),
    ],
    ids=lambda value: ascii(value),
)
def test_what_is_invisible_is_made_visible(token: str, shown: str) -> None:
    assert visible(token) == shown


def test_what_keeps_a_token_s_direction_stays_in_a_line() -> None:
    assert printable(f"from {isolate_direction('עברית')} on") == "from \u2068עברית\u2069 on"


def test_a_space_within_a_line_of_text_stays_one() -> None:
    assert printable("a b") == "a b"


def test_pieces_that_go_on_with_a_word_begin_with_a_dot() -> None:
    assert labels(tokens("<s>", "cat", "##s", "run", "<e>")) == ["<s>", "cat", "·s", "run", "<e>"]


def test_a_word_of_the_second_text_does_not_go_on_with_the_first() -> None:
    side = (Token("a", "a", word=0), Token("b", "b", word=0, segment=1))
    assert labels(side) == ["a", "b"]


@pytest.mark.parametrize(("text", "shown"), [("", "∅"), (" ", "␣"), ("  a", "␣a"), (" a", "a")])
def test_a_label_is_never_empty(text: str, shown: str) -> None:
    assert label(Token(text, text)) == shown


def test_a_long_label_is_cut_between_characters() -> None:
    assert shorten("short", 24) == "short"
    cut = shorten("e\u0301" * 90, 10)
    assert cut.endswith("e\u0301…")
    assert text_width(cut) <= 10
    family = "👨\u200d👩\u200d👧"
    assert set(clusters(shorten(family * 30, 9))) == {family, "…"}


def test_wide_characters_count_as_wide() -> None:
    assert text_width("달력") == 2
    assert text_width("e\u0301") == text_width("e")
    assert text_width("il") < text_width("ab") < text_width("mW")
