"""A word, and a sigma at its end, as regular expressions that mean the same in every engine.

What `\\w`, `\\s` and the like match differs between engines, and between their versions of Unicode. So the characters
themselves are spelled out here, as this Python knows them.
"""

from collections.abc import Callable
from functools import cache

from pellucid.text.words import CLOSING, OPENING, extends

# Between and behind these planes nothing is assigned but private characters.
_ASSIGNED = (*range(0xD800), *range(0xE000, 0x33480), *range(0xE0000, 0xE0200))
_BETWEEN = 3
"""The most characters that count for nothing, as marks and apostrophes, across which a sigma is told apart."""


@cache
def word() -> str:
    """Returns the pattern of the words and marks that cut_words() finds."""
    letter, space, digit, extend = (_class(of) for of in (_is_letter, str.isspace, str.isdecimal, extends))
    letters = f"[{letter}]+(?:[{extend}]+[{letter}]*)*"
    mark = f"[^{letter}{space}][{extend}]*"
    return f"{letters}(?:(?<=[{digit}])[.,:](?=[{digit}]){letters})*|{mark}(?:(?<=\u200d){mark})*"


@cache
def unspaced() -> str:
    """Returns the pattern of the spaces that join_words() does not write."""
    letter = f"[{_class(_is_letter)}]"
    return f" (?=[{CLOSING}](?: |$))|(?<=[{OPENING}]) | (?=['’-] {letter})|(?<={letter} ['’-]) "


@cache
def final_sigma() -> str:
    """Returns the pattern of a capital sigma at the end of a word, whose lower case is another one."""
    cased, nothing = _class(_is_cased), _class(_counts_for_nothing)
    before = "|".join(f"[{cased}]" + f"[{nothing}]" * n for n in range(_BETWEEN))
    return f"(?<={before})Σ(?![{nothing}]*[{cased}])"


def is_own(pattern: str) -> bool:
    """Tells whether a pattern is one of these: they are longer than a stranger's may be."""
    return pattern in (word(), unspaced(), final_sigma())


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_cased(character: str) -> bool:
    return f"aΣ{character}".lower()[1] == "σ"


def _counts_for_nothing(character: str) -> bool:
    return f"aΣ{character}a".lower()[1] == "σ" and not _is_cased(character)


@cache
def _class(holds: Callable[[str], bool]) -> str:
    """Returns the characters of which something holds, as ranges inside the brackets of a regular expression."""
    found: list[list[int]] = []
    for code in _ASSIGNED:
        if holds(chr(code)):
            if found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    return "".join(_spelled(a) if a == b else f"{_spelled(a)}-{_spelled(b)}" for a, b in found)


def _spelled(code: int) -> str:
    character = chr(code)
    return f"\\{character}" if character in r"\[]^-" else character
