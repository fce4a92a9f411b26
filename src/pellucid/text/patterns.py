"""Regular expressions for words and for final sigmas that match the same text in every engine.

The characters that `\\w`, `\\s` and the like match differ between engines, and between their versions of Unicode. So
the characters are listed here, by this Python's Unicode version.
"""

from collections.abc import Callable
from functools import cache

from pellucid.text.words import CLOSING, OPENING, is_combining

# Between and after these planes only private-use characters are assigned.
_ASSIGNED = (*range(0xD800), *range(0xE000, 0x33480), *range(0xE0000, 0xE0200))
_BETWEEN = 3
"""The most ignorable characters, such as marks and apostrophes, that are skipped to decide if a sigma is final."""


@cache
def make_word_pattern() -> str:
    """Returns the pattern of the words and marks that tokenize_words() finds."""
    letter, space, digit, extend = (_class(of) for of in (_is_letter, str.isspace, str.isdecimal, is_combining))
    letters = f"[{letter}]+(?:[{extend}]+[{letter}]*)*"
    mark = f"[^{letter}{space}][{extend}]*"
    return f"{letters}(?:(?<=[{digit}])[.,:](?=[{digit}]){letters})*|{mark}(?:(?<=\u200d){mark})*"


@cache
def make_space_pattern() -> str:
    """Returns the pattern of the spaces that detokenize_words() omits."""
    letter = f"[{_class(_is_letter)}]"
    return f" (?=[{CLOSING}](?: |$))|(?<=[{OPENING}]) | (?=['’-] {letter})|(?<={letter} ['’-]) "


@cache
def final_sigma() -> str:
    """Returns the pattern of a capital sigma at the end of a word, whose lower case is the final sigma."""
    cased, nothing = _class(_is_cased), _class(_counts_for_nothing)
    before = "|".join(f"[{cased}]" + f"[{nothing}]" * n for n in range(_BETWEEN))
    return f"(?<={before})Σ(?![{nothing}]*[{cased}])"


def is_own(pattern: str) -> bool:
    """Returns True if a pattern is from this module: these are longer than the limit for untrusted patterns."""
    return pattern in (make_word_pattern(), make_space_pattern(), final_sigma())


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_cased(character: str) -> bool:
    return f"aΣ{character}".lower()[1] == "σ"


def _counts_for_nothing(character: str) -> bool:
    return f"aΣ{character}a".lower()[1] == "σ" and not _is_cased(character)


@cache
def _class(holds: Callable[[str], bool]) -> str:
    """Returns the characters for which `holds` is True, as ranges of a character class in a regular expression."""
    found: list[list[int]] = []
    for code in _ASSIGNED:
        if holds(chr(code)):
            if found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    return "".join(_escape(a) if a == b else f"{_escape(a)}-{_escape(b)}" for a, b in found)


def _escape(code: int) -> str:
    character = chr(code)
    return f"\\{character}" if character in r"\[]^-" else character
