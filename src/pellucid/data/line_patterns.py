"""Patterns in a line that are not natural language: markup, addresses, numbers, repetition, overlong words."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from pellucid.data.scripts import UNSPACED, letters_by_script

LONGEST = 2000
"""Characters of a line at most that are searched for repetition."""
_TAG = r"</?[a-zA-Z][a-zA-Z0-9:-]{0,30}(?:\s[^<>]{0,300})?/?>|<!--|\[/?(?:b|i|u|url|img|quote|code)[\]=]|\{\{|\}\}"
ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]{1,7}|\#\d{1,6}|\#[xX][0-9a-fA-F]{1,6});")
"""Characters as pages and Moses escape them: `&quot;`, `&#91;`."""
_MARKUP, _TAGS = re.compile(f"{_TAG}|{ENTITY.pattern}"), re.compile(_TAG)
# The characters of RFC 3986: text in another script after an address does not belong to it. A mail address is matched
# only from its first character, so that a long word is scanned once.
_ADDRESS = re.compile(
    r"(?:https?://|ftp://|www\.)[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+"
    r"|(?<![A-Za-z0-9.+_%-])[A-Za-z0-9.+_%-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
    re.IGNORECASE | re.ASCII,
)
_BEHIND = ".,;:!?)]}'\""
_THOUSANDS = re.compile(r"(?<=\d)[.,'’\u00a0\u202f ](?=\d{3}(?!\d))")
_DIGITS = re.compile(r"\d+")
_DRAWN_OUT = re.compile(r"([^\W\d_])\1{9,}")


class _Letters(dict[str, bool]):
    """True for each character that is a letter or a mark on one."""

    def __missing__(self, character: str) -> bool:
        self[character] = found = unicodedata.category(character)[0] in "LM"
        return found


_LETTERS = _Letters()


def letters_and_marks(line: str) -> float:
    """Returns the fraction of a line's characters, without spaces, that are letters or marks; 1 for an empty line."""
    characters = "".join(line.split())
    if not characters:
        return 1.0
    letters = map(str.isalpha, characters) if characters.isascii() else map(_LETTERS.__getitem__, characters)
    return sum(letters) / len(characters)


def markup_in(line: str) -> str:
    """Returns the first tag, entity or other markup of a line, or an empty string."""
    if not any(mark in line for mark in "<&[{"):
        return ""
    found = _MARKUP.search(line)
    return found[0] if found else ""


def tags_in(line: str) -> list[str]:
    """Returns the markup of a line without entities: tags that are equal on two sides belong to their text."""
    return _TAGS.findall(line) if any(mark in line for mark in "<[{") else []


def entity_in(line: str) -> str:
    """Returns the first entity of a line, or an empty string."""
    found = ENTITY.search(line) if "&" in line else None
    return found[0] if found else ""


def addresses_in(line: str) -> list[str]:
    """Returns the web and mail addresses of a line, without the punctuation after them."""
    return [line[start:end] for start, end in addresses_at(line)]


def addresses_at(line: str) -> list[tuple[int, int]]:
    """Returns the start and end of each web and mail address of a line, without the punctuation after it."""
    if not ("://" in line or "@" in line or "www." in line.lower()):
        return []
    return [(found.start(), found.start() + len(found[0].rstrip(_BEHIND))) for found in _ADDRESS.finditer(line)]


def address_apart(sides: Sequence[str]) -> tuple[int, str] | None:
    """Returns the side and the address of a pair whose addresses differ, or with a side that is mostly addresses; else
    None. With one side only the second condition is checked.
    """
    found = [addresses_in(side) for side in sides]
    for side, addresses in enumerate(found):
        if 2 * sum(map(len, addresses)) > len(sides[side]):
            return side, addresses[0]
    if len(found) == 1 or set(found[0]) == set(found[1]):
        return None
    alone = set(found[0]) ^ set(found[1])
    return next((side, address) for side in (0, 1) for address in found[side] if address in alone)


def remove_addresses(line: str) -> str:
    """Returns a line without its web and mail addresses, whose letters belong to no language."""
    return _ADDRESS.sub(" ", line) if addresses_in(line) else line


def numbers_in(line: str) -> list[int]:
    """Returns the numbers of at least two digits, with any thousands separators and in any digits."""
    if not _DIGITS.search(line):
        return []
    found = (int(digits[:18]) for digits in _DIGITS.findall(_THOUSANDS.sub("", line)))
    return [number for number in found if number > 9]


def agreement(numbers: Sequence[int], others: Sequence[int]) -> float:
    """Returns the fraction of numbers that are in both lists; a year may have two digits or four."""
    left, common = list(others), 0
    for number in numbers:
        match = next((other for other in left if number == other or _is_short_year(number, other)), None)
        if match is not None:
            left.remove(match)
            common += 1
    return 2 * common / (len(numbers) + len(others))


def _is_short_year(number: int, other: int) -> bool:
    short, long = sorted((number, other))
    return short < 100 and 1000 <= long < 3000 and long % 100 == short


def repetition_in(line: str, most: int) -> tuple[str, int]:
    """Returns the text that a line repeats more than `most` times in a row, and its count; else an empty string."""
    line = line[:LONGEST]
    # Repetition results in few distinct character bigrams: most lines are excluded here.
    if len(line) < 8 or len(set(pairwise(line))) > 0.6 * len(line):
        return "", 0
    if drawn_out := _DRAWN_OUT.search(line):
        return drawn_out[1], len(drawn_out[0])
    for found in _make_repetition_pattern(most).finditer(line):
        times = found[0].count(found[1])
        if times > most and any(map(str.isalpha, found[1])):
            return found[1].strip(), times
    return "", 0


@cache
def _make_repetition_pattern(most: int) -> re.Pattern[str]:
    return re.compile(rf"(\S.{{1,40}}?)(?:\s*\1){{{most},}}")


def longest_word(line: str, most: int) -> str:
    """Returns the first word of more than `most` characters, or an empty string. Addresses and text in scripts without
    spaces do not count.
    """
    if len(line) <= most:
        return ""
    for word in line.split():
        if len(word) > most and not addresses_in(word):
            scripts = letters_by_script(word)
            if 2 * sum(count for script, count in scripts.items() if script in UNSPACED) <= sum(scripts.values()):
                return word
    return ""
