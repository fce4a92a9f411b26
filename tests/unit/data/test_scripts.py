"""How many letters of a line belong to which script."""

import pytest

from pellucid.data.scripts import letters_by_script, weight_by_alphabet, words_by_script


@pytest.mark.parametrize(
    ("line", "scripts"),
    [
        ("A man, 40.", {"Latin": 4}), ("Übung", {"Latin": 5}), ("", {}), ("12 — ½!", {}),
        ("Привет, world", {"Cyrillic": 6, "Latin": 5}), ("Καλημέρα", {"Greek": 8}), ("안녕 한국", {"Hangul": 4}),
        ("若い男ー々", {"Han": 3, "Kana": 2}), ("ﾊﾝｶｸ Ａ", {"Kana": 4, "Latin": 1}), ("مرحبا", {"Arabic": 5}),
        ("שלום", {"Hebrew": 4}), ("हिन्दी", {"Devanagari": 3}), ("สวัสดี", {"Thai": 4}), ("𝐀ª²", {}),
    ],
)  # fmt: skip
def test_letters_by_script(line: str, scripts: dict[str, int]) -> None:
    assert dict(letters_by_script(line)) == scripts


def test_letters_weigh_by_their_script_and_words_end_where_it_does() -> None:
    assert weight_by_alphabet({"Han": 2, "Hangul": 1, "Latin": 4}) == {"Han": 6, "Hangul": 2, "Latin": 4}
    assert words_by_script("GNOME의 x-창, 3") == [
        ("Latin", "GNOME"),
        ("Hangul", "의"),
        ("Latin", "x"),
        ("Hangul", "창"),
    ]
    assert words_by_script("a dog's") == [("Latin", "a"), ("Latin", "dog"), ("Latin", "s")]
