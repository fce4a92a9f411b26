"""Splits text into words and single marks, and joins words into text again."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

_JOINERS = "\u200c\u200d"
OPENING = r"(\[{¿¡„（「『"
CLOSING = r".,!?;:%)\]}…”。、，！？；：）」』"
_SPACED_MARK = re.compile(rf" (?=[{CLOSING}](?: |$))|(?<=[{OPENING}]) | (?=['’-] \w)|(?<=\w ['’-]) ")


def tokenize_words(text: str) -> list[str]:
    """Returns the words and single marks of `text`, in order, without white space.

    A word is a run of Unicode letters, digits, underscores and the marks that combine with them; a number keeps the
    points and commas inside it (3.5, 10:30). Scripts written without spaces give whole runs.
    """
    return _word_pattern().findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Returns the start and end in `text` of each word that tokenize_words() returns."""
    return [match.span() for match in _word_pattern().finditer(text)]


def detokenize_words(words: Iterable[str]) -> str:
    """Returns the words joined by single spaces, except around apostrophes and hyphens inside a word, before closing
    marks (. , ! ? ; : %) and after opening ones."""
    return _SPACED_MARK.sub("", " ".join(words))


def is_combining(character: str) -> bool:
    """Returns True if a character combines with the letter before it: marks, joiners, the skin tones of emoji.

    Without the marks, words in most South Asian scripts would be split.
    """
    code = ord(character)
    marked = 0x300 <= code < 0x1F000 or 0xE0100 <= code < 0xE01F0
    return character in _JOINERS or 0x1F3FB <= code <= 0x1F3FF or (marked and unicodedata.category(character)[0] == "M")


@cache
def _word_pattern() -> re.Pattern[str]:
    extend = re.escape("".join(filter(is_combining, map(chr, range(0x300, 0xE01F0)))))
    letters = rf"\w+(?:[{extend}]+\w*)*"
    mark = rf"[^\w\s][{extend}]*"
    return re.compile(rf"{letters}(?:(?<=\d)[.,:](?=\d){letters})*|{mark}(?:(?<=\u200d){mark})*")
