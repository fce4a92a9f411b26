"""Patterns of a line: markup, addresses, numbers, repetition, endless words; and what looks like them and is none."""

import pytest

from pellucid.data.line_patterns import (
    addresses_in,
    agreement,
    letters_and_marks,
    longest_word,
    markup_in,
    numbers_in,
    remove_addresses,
    repetition_in,
)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a <b>bold</b> word", "<b>"), ("so<br/>far", "<br/>"), ('<a href="x">y</a>', '<a href="x">'),
        ("Q&amp;A", "&amp;"), ("it&#39;s", "&#39;"), ("&#x27;", "&#x27;"), ("<!-- no -->", "<!--"),
        ("[b]bold[/b]", "[b]"), ("{{cite}}", "{{"), ("a < b and c > d", ""), ("R&D; and more", ""), ("x <3 y", ""),
        ("[1] and [sic]", ""), ("AT&T", ""), ("für", ""), ("若い男&nbsp;", "&nbsp;"),
    ],
)  # fmt: skip
def test_markup(line: str, found: str) -> None:
    assert markup_in(line) == found


def test_addresses() -> None:
    assert addresses_in("see https://a.example/b?c=1. Or (www.b.example), a.b@c.example!") == [
        "https://a.example/b?c=1", "www.b.example", "a.b@c.example",
    ]  # fmt: skip
    assert addresses_in("at 5 @ home: no://") == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("请参阅https://x.org/a了解更多。", "https://x.org/a"), ("자세한 것은 https://x.org/a를 보세요.", "https://x.org/a"),
        ("详见<https://x.org/a>。", "https://x.org/a"), ("メールはa@b.orgへ", "a@b.org"), ("문의:a@b.org로", "a@b.org"),
        ("（www.x.org）", "www.x.org"), ("ดูที่https://x.org/aได้", "https://x.org/a"), ("см.https://x.org/a?b=1#c»", "https://x.org/a?b=1#c"),
        ("راجع https://x.org/a، ثم", "https://x.org/a"), ("(https://x.org/a_(b))", "https://x.org/a_(b"),
    ],
)  # fmt: skip
def test_an_address_ends_at_the_first_character_that_is_not_of_one(line: str, found: str) -> None:
    assert addresses_in(line) == [found]


def test_lines_without_addresses() -> None:
    assert remove_addresses("자세한 것은 https://a.example/b 참고") == "자세한 것은   참고"


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("in 1987, 5 of 40", [1987, 40]), ("1,234,567 and 1.234.567 and 1 234 567", [1234567] * 3),
        ("12:30", [12, 30]), ("٣٤ 34 ３４", [34] * 3), ("1987年5月", [1987]), ("007", []), ("x" * 9, []),
        ("9" * 5000, [int("9" * 18)]),
    ],
)  # fmt: skip
def test_numbers(line: str, numbers: list[int]) -> None:
    assert numbers_in(line) == numbers


def test_how_far_numbers_agree() -> None:
    assert agreement([1987, 40], [40, 1987]) == 1
    assert agreement([1987], [1988]) == 0
    assert agreement([21], [2021]) == 1, "a short year"
    assert agreement([21], [3021]) == 0
    assert agreement([21, 21], [21]) == pytest.approx(2 / 3), "each counts once"
    assert agreement([14, 30], [30]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("line", "piece", "times"),
    [
        ("no no no no no no", "no", 6), ("よいよいよいよいよい", "よい", 5), ("goooooooooooal", "o", 11),
        ("the cat the cat the cat the cat sat", "the cat", 4), ("no no no", "", 0), (". . . . . . . . .", "", 0),
        ("1.000.000.000.000", "", 0), ("A man in a hat and a woman in a hat stand in a street.", "", 0),
        ("바나나나 나나나", "", 0),
    ],
)  # fmt: skip
def test_repetition(line: str, piece: str, times: int) -> None:
    assert repetition_in(line, 3) == (piece, times)


def test_repetition_goes_by_its_limit() -> None:
    assert repetition_in("no no no no no", 5) == ("", 0)
    assert repetition_in("tick tock tick tock tick tock", 2) == ("tick tock", 3)


def test_endless_words() -> None:
    assert longest_word("a " + "b" * 41, 40) == "b" * 41
    assert longest_word("a " + "b" * 40, 40) == ""
    assert longest_word("https://a.example/" + "b" * 60, 40) == ""
    assert longest_word("若い男性が公園で犬と遊んでいる。" * 4, 40) == "", "no spaces between words"
    assert longest_word("남자가" * 20, 40) == "남자가" * 20


def test_the_part_that_are_letters() -> None:
    assert letters_and_marks("ab 12") == 0.5
    assert letters_and_marks("हिन्दी") == 1, "vowel signs are letters' marks"
    assert letters_and_marks("") == letters_and_marks("  ") == 1
    assert letters_and_marks("- 1 -") == 0
