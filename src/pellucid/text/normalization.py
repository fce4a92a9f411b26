"""Text normalization: maps equivalent Unicode spellings to one, composed, with plain spaces and no invisible marks.

A letter with an accent may be one character or two, a space may be one of some twenty, and invisible characters may
appear between letters. To a tokenizer these are different texts, so a model that was trained on one spelling fails on
the others. Every tokenizer that is trained here applies `normalize` first; docs/concepts/text.md has the table.
"""

import re
import sys
import unicodedata
from functools import cache
from itertools import groupby
from typing import get_args

from sentencepiece import SentencePieceNormalizer

from pellucid.config.data import Normalization

NORMALIZATIONS = get_args(Normalization)
SPACE_MARK = "▁"
"""The character that SentencePiece writes for a space, U+2581; SentencePiece reads it as a space, too."""
SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B)))
SPACES += "\u2028\u2029\u202f\u205f\u3000"
"""All characters for which str.isspace() is True."""
INVISIBLE = "\xad\u200b\u2060\ufeff"
"""The soft hyphen, zero-width space, word joiner and byte order mark, which are invisible in every script."""
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
"""The ranges in which a joiner or non-joiner changes the shape of letters: it is kept after these characters."""
PICTOGRAPHS = (
    (0x26D3, 0x26D3), (0x26F9, 0x26F9), (0x2764, 0x2764), (0xFE0F, 0xFE0F), (0x1F300, 0x1F6FF), (0x1F900, 0x1F9FF),
)  # fmt: skip
"""After these characters, skin tones included, a joiner combines two emoji into one."""


LONGEST_RUN = 1000
"""The number of consecutive combining marks from which they are ordered before a text is composed."""
_REMOVED = re.compile(f"[{INVISIBLE}{NON_JOINER}{JOINER}{SPACE_MARK}]")
"""Matches all characters that "nfc" may remove, in any context."""


def normalize(text: str, form: str) -> str:
    """Returns `text` in the normalization `form`; idempotent.

    nfc       canonical composition (Unicode's NFC); each run of white space is one space, none at the ends; no
              invisible characters; a joiner or non-joiner only where the script or an emoji uses it
    nmt_nfkc  SentencePiece's rules of that name, with compatibility forms (full-width letters, ligatures) made plain
    none      the text unchanged
    """
    if form == "none":
        return text
    if form == "nmt_nfkc":
        spelled: bytes = nmt_nfkc().Normalize(text.encode("utf-8", "replace"))
        return spelled.decode("utf-8")
    if text.isascii() or (not _REMOVED.search(text) and is_composed(text)):
        return " ".join(text.split())
    # Removing characters may make two others adjacent that compose, and a joiner may have depended on these.
    while (spelled_once := _nfc_once(text)) != text:
        text = spelled_once
    return text


def _nfc_once(text: str) -> str:
    return " ".join(compose(make_invisible_pattern().sub("", text.replace(SPACE_MARK, " "))).split())


def compose(text: str) -> str:
    """Returns Unicode's NFC of a text, in time linear in its length."""
    return unicodedata.normalize("NFC", _order_marks(text))


def is_composed(text: str) -> bool:
    """Returns True if a text is in Unicode's NFC, in time linear in its length."""
    ordered = _order_marks(text)
    if ordered is text:
        return unicodedata.is_normalized("NFC", text)
    return unicodedata.normalize("NFC", ordered) == text


def _order_marks(text: str) -> str:
    """Returns a text with its long runs of combining marks in canonical order (Unicode 3.11, D109), or `text` itself.

    `unicodedata` uses insertion sort, which takes time quadratic in the length of an unordered run.
    """
    if len(text) <= LONGEST_RUN or text.isascii() or not _long_run().search(text):
        return text
    decomposed = "".join(unicodedata.normalize("NFD", character) for character in text)
    runs = groupby(decomposed, key=lambda character: unicodedata.combining(character) > 0)
    ordered = "".join("".join(sorted(run, key=unicodedata.combining) if is_run else run) for is_run, run in runs)
    return text if ordered == text else ordered


@cache
def _long_run() -> re.Pattern[str]:
    """Matches LONGEST_RUN consecutive combining marks."""
    marks = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(c))
    return re.compile(f"[{re.escape(marks)}]{{{LONGEST_RUN}}}")


@cache
def nmt_nfkc() -> SentencePieceNormalizer:
    """Returns SentencePiece's `nmt_nfkc` rules, without escaping spaces."""
    return SentencePieceNormalizer(
        rule_name="nmt_nfkc", add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=True
    )


@cache
def make_invisible_pattern() -> re.Pattern[str]:
    """Matches each character that "nfc" removes: invisible characters, and joiners where they have no effect."""
    scripts, pictographs = _make_class(JOINING_SCRIPTS), _make_class(PICTOGRAPHS)
    return re.compile(f"[{INVISIBLE}]|(?<![{scripts}]){NON_JOINER}|(?<![{scripts}{pictographs}]){JOINER}")


def _make_class(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
