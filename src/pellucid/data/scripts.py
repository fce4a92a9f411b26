"""The scripts in which a line is written: how many of its letters belong to each."""

import unicodedata
from collections import Counter
from collections.abc import Mapping

UNSPACED = frozenset({"Han", "Kana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"})
"""The scripts that put no space between words."""
SCRIPTS = UNSPACED | {
    "Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi",
    "Hangul", "Hebrew", "Kannada", "Latin", "Malayalam", "Mongolian", "Oriya", "Sinhala", "Syriac", "Tamil", "Telugu",
    "Thaana",
}  # fmt: skip
"""The scripts that can be named."""
_BY_FIRST_WORD = {
    "Cjk": "Han",
    "Ideographic": "Han",
    "Hiragana": "Kana",
    "Katakana": "Kana",
    "Katakana-hiragana": "Kana",
}
_OF_NO_SCRIPT = frozenset(
    {"Modifier", "Mathematical", "Superscript", "Subscript", "Double-struck", "Script", "Black-letter", "Feminine",
     "Masculine", "Micro", "Kelvin", "Angstrom", "Ohm", "Planck", "Euler", "Information", "Fullwidth", "Halfwidth"}
)  # fmt: skip


class _Scripts(dict[str, str]):
    """The script of each character, as it is asked for; empty for what is no letter, or one of no script."""

    def __missing__(self, character: str) -> str:
        self[character] = found = _script_of(character)
        return found


def _script_of(character: str) -> str:
    """Returns the script by the character's name, since Python's standard library knows no other table of them."""
    if not unicodedata.category(character).startswith("L"):
        return ""
    words = unicodedata.name(character, "").split()
    if words[1:] and words[0] in ("FULLWIDTH", "HALFWIDTH"):
        del words[0]
    first = words[0].capitalize() if words else ""
    return "" if first in _OF_NO_SCRIPT else _BY_FIRST_WORD.get(first, first)


_SCRIPTS = _Scripts()


def letters_by_script(line: str) -> Mapping[str, int]:
    """Returns how many letters of a line belong to each script: `{"Latin": 5, "Cyrillic": 12}`."""
    if line.isascii():
        letters = sum(map(str.isalpha, line))
        return {"Latin": letters} if letters else {}
    found = Counter(map(_SCRIPTS.__getitem__, line))
    del found[""]
    return found
