"""Characters that tell of an accident: found in each script, and not in text that only looks like one."""

import pytest

from pellucid.data.characters import control_character, is_encoded_twice

TEXTS = [
    "für", "Müller – naïve café »", "la vérité\xa0».", "Ça été «\xa0là\xa0»", "„Ä“", "«é…»", "IRMÃO", "NÃO”",
    "25 °C", "a\xa0b", "à Âge", "日本語", "Привет, мир", "안녕하세요", "Ελλάδα", "“quoted” – it’s", "ÄÖÜ", "Ååå »",
]  # fmt: skip


@pytest.mark.parametrize("text", [*TEXTS, "plain", ""])
def test_whole_text_is_not_encoded_twice(text: str) -> None:
    assert not is_encoded_twice(text)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
@pytest.mark.parametrize("text", TEXTS)
def test_text_encoded_twice(text: str, encoding: str) -> None:
    """As a program writes it that takes UTF-8 for `encoding`; Windows-1252 lacks five bytes, which stay as they are."""
    twice = "".join(
        bytes([byte]).decode(encoding)
        if encoding == "latin-1" or byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
        else chr(byte)
        for byte in text.encode()
    )
    assert is_encoded_twice(twice)


@pytest.mark.parametrize("line", ["Der Müller mahlt fÃ¼r Åse", "Itâ€™s “mixed” — 日本"])
def test_a_part_of_a_line(line: str) -> None:
    assert is_encoded_twice(line)


@pytest.mark.parametrize(
    ("line", "character"),
    [("a\0b", "U+0000"), ("a\rb", "U+000D"), ("a\x0bb\x0c", "U+000B"), ("\x85", "U+0085"), ("a\ufeffb", ""),
     ("\x7f", "U+007F"), ("a\tb", ""), ("a\u2028b\xa0c\u200d", ""), ("é 日本語 🙂", ""), ("", "")],
)  # fmt: skip
def test_control_characters(line: str, character: str) -> None:
    assert control_character(line) == character


@pytest.mark.parametrize("form", ["nfc", "nmt_nfkc"])
def test_what_a_tokenizer_removes_or_reads_as_a_space_is_no_control_character(form: str) -> None:
    """One table decides: a line whose odd characters are gone when it is read needs no repair."""
    assert control_character("a\0b", form) == "U+0000"
    assert [control_character(f"a{character}b", form) for character in "\x0b\x0c\r\ufeff"] == [""] * 4
