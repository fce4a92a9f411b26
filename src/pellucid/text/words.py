"""Text cut into words and single marks, and words joined into text again."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

_JOINERS = "\u200c\u200d"
_OPENING = r"(\[{¿¡„（「『"
_CLOSING = r".,!?;:%)\]}…”。、，！？；：）」』"
_SPACED_MARK = re.compile(rf" (?=[{_CLOSING}](?: |$))|(?<=[{_OPENING}]) | (?=['’-] \w)|(?<=\w ['’-]) ")


def cut_words(text: str) -> list[str]:
    """The words and single marks of `text`, in order; white space separates and is dropped.

    A word is a run of Unicode letters, digits, underscores and the marks that combine with them; a number keeps the
    points and commas inside it (3.5, 10:30). Scripts written without spaces come out as whole runs.
    """
    return _word_pattern().findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where each of cut_words() begins and ends in `text`."""
    return [match.span() for match in _word_pattern().finditer(text)]


def join_words(words: Iterable[str]) -> str:
    """The words with one space between them, but none around apostrophes and hyphens inside a word, none before
    closing marks (. , ! ? ; : %) and none after opening ones."""
    return _SPACED_MARK.sub("", " ".join(words))


@cache
def _word_pattern() -> re.Pattern[str]:
    r"""`\w` leaves out the combining marks without which most scripts of South Asia fall apart, hence this pattern."""
    marks = [chr(code) for code in (*range(0x300, 0x1F000), *range(0xE0100, 0xE01F0))]
    extend = re.escape("".join(c for c in marks if unicodedata.category(c).startswith("M")) + _JOINERS)
    extend += "\U0001f3fb-\U0001f3ff"  # skin tones of emoji
    letters = rf"\w+(?:[{extend}]+\w*)*"
    mark = rf"[^\w\s][{extend}]*"
    return re.compile(rf"{letters}(?:(?<=\d)[.,:](?=\d){letters})*|{mark}(?:(?<=\u200d){mark})*")
