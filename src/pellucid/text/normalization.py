"""One spelling for a text that can be typed in several: composed letters, plain spaces, no invisible marks.

A letter with an accent may be one character or two, a space may be one of some twenty, and between letters may stand
what nobody sees. To a tokenizer these are other texts, so a model that has read one spelling stumbles over the others.
`normalize` is what every tokenizer that is trained here does first; docs/concepts/text.md has the table.
"""

import re
import unicodedata
from functools import cache
from typing import get_args

from sentencepiece import SentencePieceNormalizer

from pellucid.config.data import Normalization

NORMALIZATIONS = get_args(Normalization)
SPACE_MARK = "▁"
"""The character that SentencePiece writes for a space, U+2581; in a text it reads it as one."""
SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B)))
SPACES += "\u2028\u2029\u202f\u205f\u3000"
"""All that str.isspace() says is one."""
INVISIBLE = "\xad\u200b\u2060\ufeff"
"""The soft hyphen, the zero-width space, the word joiner and the byte order mark: they write nothing in any script."""
NON_JOINER, JOINER = "\u200c", "\u200d"
JOINING_SCRIPTS = (
    (0x0600, 0x0DFF),  # Arabic, Syriac, Thaana, N'Ko, Mandaic; the scripts of South Asia
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x18AF),  # Khmer, Mongolian
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1BFF),  # Balinese, Sundanese, Batak
    (0xA8E0, 0xA8FF),  # more Devanagari
    (0xA980, 0xA9FF),  # Javanese
    (0x11000, 0x1114F),  # Brahmi, Kaithi, Chakma
)
"""The ranges in which a joiner or non-joiner changes how letters are written: they are kept behind these characters."""
PICTOGRAPHS = (
    (0x26D3, 0x26D3), (0x26F9, 0x26F9), (0x2764, 0x2764), (0xFE0F, 0xFE0F), (0x1F300, 0x1F6FF), (0x1F900, 0x1F9FF),
)  # fmt: skip
"""Behind these, skin tones among them, a joiner makes one emoji of two."""


def normalize(text: str, form: str) -> str:
    """Returns `text` as a tokenizer with this normalisation spells it. Doing it twice changes nothing more.

    nfc       canonical composition (Unicode's NFC); each run of white space is one space, none at the ends; no
              invisible characters; a joiner or non-joiner only where script or emoji have a use for it
    nmt_nfkc  SentencePiece's rules of that name, with compatibility forms (full-width letters, ligatures) made plain
    none      the text as it is
    """
    if form == "none":
        return text
    if form == "nmt_nfkc":
        spelled: bytes = nmt_nfkc().Normalize(text.encode("utf-8", "replace"))
        return spelled.decode("utf-8")
    # What is removed may bring two characters together that compose, and these may have been a joiner's reason.
    while (spelled_once := _nfc_once(text)) != text:
        text = spelled_once
    return text


def _nfc_once(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFC", unseen().sub("", text.replace(SPACE_MARK, " ")))
    return " ".join(text.split())


@cache
def nmt_nfkc() -> SentencePieceNormalizer:
    """Returns SentencePiece's own rules, with spaces as spaces."""
    return SentencePieceNormalizer(
        rule_name="nmt_nfkc", add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=True
    )


@cache
def unseen() -> re.Pattern[str]:
    """Matches each character that "nfc" removes: always the invisible ones, joiners where they do nothing."""
    scripts, pictographs = _as_class(JOINING_SCRIPTS), _as_class(PICTOGRAPHS)
    return re.compile(f"[{INVISIBLE}]|(?<![{scripts}]){NON_JOINER}|(?<![{scripts}{pictographs}]){JOINER}")


def _as_class(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
