"""The scripts of a line: the number of letters and the words of each script."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from itertools import groupby

UNSPACED = frozenset({"Han", "Kana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"})
"""Scripts without spaces between words."""
SCRIPTS = UNSPACED | {
    "Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi",
    "Hangul", "Hebrew", "Kannada", "Latin", "Malayalam", "Mongolian", "Oriya", "Sinhala", "Syriac", "Tamil", "Telugu",
    "Thaana",
}  # fmt: skip
"""The scripts that settings can name."""
WEIGHTS: Mapping[str, int] = {"Han": 3, "Kana": 2, "Hangul": 2, "Ethiopic": 2}
"""The number of alphabetic letters that a letter of a script counts as; 1 for other scripts."""
_BY_FIRST_WORD = {
    "Cjk": "Han",
    "Ideographic": "Han",
    "Hiragana": "Kana",
    "Katakana": "Kana",
    "Katakana-hiragana": "Kana",
}
_ASCII_WORD = re.compile("[A-Za-z]+")
_OF_NO_SCRIPT = frozenset(
    {"Modifier", "Mathematical", "Superscript", "Subscript", "Double-struck", "Script", "Black-letter", "Feminine",
     "Masculine", "Micro", "Kelvin", "Angstrom", "Ohm", "Planck", "Euler", "Information", "Fullwidth", "Halfwidth"}
)  # fmt: skip


class _Scripts(dict[str, str]):
    """The script of each character, computed on first use; empty for non-letters and letters without a script."""

    def __missing__(self, character: str) -> str:
        self[character] = found = _find_script(character)
        return found


def _find_script(character: str) -> str:
    """Returns the script by the character's name, since Python's standard library has no table of scripts."""
    if not unicodedata.category(character).startswith("L"):
        return ""
    words = unicodedata.name(character, "").split()
    if words[1:] and words[0] in ("FULLWIDTH", "HALFWIDTH"):
        del words[0]
    first = words[0].capitalize() if words else ""
    return "" if first in _OF_NO_SCRIPT else _BY_FIRST_WORD.get(first, first)


_SCRIPTS = _Scripts()


def letters_by_script(line: str) -> Mapping[str, int]:
    """Returns the number of letters of a line per script: `{"Latin": 5, "Cyrillic": 12}`."""
    if line.isascii():
        letters = sum(map(str.isalpha, line))
        return {"Latin": letters} if letters else {}
    found = Counter(map(_SCRIPTS.__getitem__, line))
    del found[""]
    return found


def weight_by_alphabet(scripts: Mapping[str, int]) -> dict[str, int]:
    """Returns letter counts by script, converted to alphabetic letters, so that scripts can be compared."""
    return {script: count * WEIGHTS.get(script, 1) for script, count in scripts.items()}


def words_by_script(line: str) -> list[tuple[str, str]]:
    """Returns each run of letters of one script in a line, with the script: `GNOME의` is two words."""
    if line.isascii():
        return [("Latin", word) for word in _ASCII_WORD.findall(line)]
    found = ((script, "".join(letters)) for script, letters in groupby(line, _SCRIPTS.__getitem__))
    return [(script, word) for script, word in found if script]
