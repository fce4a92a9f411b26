"""How many letters of a line belong to which script."""

import pytest

from pellucid.data.scripts import letters_by_script


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
