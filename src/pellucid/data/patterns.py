"""Patterns in a line that are no sentence of a language: markup, addresses, numbers, repetition, endless words."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from pellucid.data.scripts import UNSPACED, letters_by_script

LONGEST = 2000
"""Characters of a line in which repetition is looked for."""
_MARKUP = re.compile(
    r"</?[a-zA-Z][a-zA-Z0-9:-]{0,30}(?:\s[^<>]{0,300})?/?>|<!--|&(?:[a-zA-Z]{2,8}|\#\d{1,6}|\#[xX][0-9a-fA-F]{1,6});"
    r"|\[/?(?:b|i|u|url|img|quote|code)[\]=]|\{\{|\}\}"
)
_ADDRESS = re.compile(r"(?:https?://|ftp://|www\.)\S+|[\w.+-]+@[\w-]+\.[\w.-]*\w", re.IGNORECASE)
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
    """Returns the part of a line's characters, spaces aside, that are letters or marks on letters; 1 of none."""
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


def is_marked_up(line: str) -> bool:
    """Tells whether there is markup in a line."""
    return bool(markup_in(line))


def addresses_in(line: str) -> list[str]:
    """Returns the web and mail addresses of a line, without the punctuation behind them."""
    if not ("://" in line or "@" in line or "www." in line.lower()):
        return []
    return [address.rstrip(".,;:!?)]}»”'\"") for address in _ADDRESS.findall(line)]


def without_addresses(line: str) -> str:
    """Returns a line without its web and mail addresses, whose letters are of no language."""
    return _ADDRESS.sub(" ", line) if addresses_in(line) else line


def numbers_in(line: str) -> list[int]:
    """Returns the numbers of two digits and more, whatever separates thousands and in whatever digits they are."""
    if not _DIGITS.search(line):
        return []
    found = (int(digits[:18]) for digits in _DIGITS.findall(_THOUSANDS.sub("", line)))
    return [number for number in found if number > 9]


def agreement(numbers: Sequence[int], others: Sequence[int]) -> float:
    """Returns the part of two lists of numbers that are in both; a year may have two digits or four."""
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
    """Returns what a line says more than `most` times in a row, and how often; an empty string where it does not."""
    line = line[:LONGEST]
    # Where something is repeated there are fewer kinds of neighbours than neighbours: most lines are done here.
    if len(line) < 8 or len(set(pairwise(line))) > 0.6 * len(line):
        return "", 0
    if drawn_out := _DRAWN_OUT.search(line):
        return drawn_out[1], len(drawn_out[0])
    for found in _repeated(most).finditer(line):
        times = found[0].count(found[1])
        if times > most and any(map(str.isalpha, found[1])):
            return found[1].strip(), times
    return "", 0


@cache
def _repeated(most: int) -> re.Pattern[str]:
    return re.compile(rf"(\S.{{1,40}}?)(?:\s*\1){{{most},}}")


def longest_word(line: str, most: int) -> str:
    """Returns the first word of more than `most` characters, or an empty string. Addresses are none, nor is a line in a
    script without spaces.
    """
    if len(line) <= most:
        return ""
    for word in line.split():
        if len(word) > most and not addresses_in(word):
            scripts = letters_by_script(word)
            if 2 * sum(count for script, count in scripts.items() if script in UNSPACED) <= sum(scripts.values()):
                return word
    return ""
