"""Quality flags: warnings about a translation that need no reference, with their evidence."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from pellucid.text.sentences import writes_spaces
from pellucid.text.words import tokenize_words

if TYPE_CHECKING:  # it imports numpy
    from pellucid.evaluation.calibration import Calibration

LONGEST_REPEATED = 12
"""The most words of a run whose repetition is detected."""
LEAST_TIMES, LEAST_CHARACTERS = 3, 8
COPIED = 0.5
"""The share of words copied from the source from which on a translation is a copy, unless references have more."""
LEAST_COPIED = 3
MOST_COMPARED = 200
"""The most words compared at once: the time may grow with the third power of their number."""
MOST_NUMBERS = 10
"""The most numbers that the evidence of a flag lists."""
SPELLED_OUT = 12
"""The largest number that is often written as a word."""
NUMBERS_KEPT = 0.5
"""The share of references with all numbers of their source below which a lost number is not flagged."""
FURTHER = 5
"""Tokens added to both lengths, so that one token does not make a short line's ratio unusual."""
USUAL_RATIO = (1 / 3, 3.0)
"""The default bounds of the length ratio, without calibration."""
LEAST_SEARCHED = -2.0
"""The log-probability per token below which a translation of the search is flagged: of Multi30k's clean test lines
0.3 % are below it, and of lines in an unseen language 98 % (docs/guides/how-sure.md).
"""
_TWICE_AGAIN = re.compile(rf"(.{{1,{LONGEST_REPEATED}}})\1\1")
"""Matches the letters of each text that _find_repeated_units() finds a run of characters in."""
_PART = re.compile(r"\w+|[^\w\s]")
"""Matches words and marks in a quarter of the time of tokenize_words(), which joins some of them."""
_DIGIT = re.compile(r"\d")
_THOUSANDS = re.compile(r"(?<!\d)\d{1,3}(?:([.,'’\u00a0\u202f ])\d{3})(?:\1\d{3})*(?!\d)")
"""A number with the same separator between all thousands: "2016 300" is two numbers."""


@dataclass(frozen=True)
class Flag:
    """A quality flag of a translation."""

    name: str
    """loop, copy, empty, numbers, length, mismatch; source, coverage, parts, spans or confidence."""
    evidence: str
    """The reason, in a few words."""


@dataclass(frozen=True)
class Repeated:
    """A run of words, or characters, that is repeated several times in a row."""

    text: str
    times: int
    beyond: int
    """The number of words after the first occurrence, or characters in a text without words."""


def find_flags(
    source: str,
    target: str,
    lengths: tuple[int, int],
    log_probability: float | None,
    calibration: "Calibration | None",
    *,
    searched: bool = False,
) -> list[Flag]:
    """Returns the quality flags of a translation.

    Args:
        lengths: tokens of source and target.
        log_probability: the mean per token of the target, end token included; None: unknown.
        calibration: the usual values; None: unknown.
        searched: if True, the search found this translation as the most probable one, so the lower bound of the usual
            log-probability per token is known without a calibration.
    """
    if not source.strip() or not target.strip():
        empty = [side for side, text in (("source", source), ("translation", target)) if not text.strip()]
        return [Flag("empty", f"the {empty[0]} has no text")] if len(empty) == 1 else []
    flags = []
    if loop := find_loop(source, target):
        flags.append(Flag("loop", f'"{loop.text}" {loop.times} times in a row'))
    share, count = measure_copying(source, target) if _count_shared(source, target) >= LEAST_COPIED else (0.0, 0)
    if count >= LEAST_COPIED and share > max(COPIED, calibration.copied if calibration else 0.0):
        flags.append(Flag("copy", f"{share:.0%} of the words are the source's, in its order"))
    if calibration is None or calibration.numbers_kept >= NUMBERS_KEPT:
        lost, new = find_changed_numbers(source, target)
        said = [f"{_format_numbers(lost)} lost"] * bool(lost) + [f"{_format_numbers(new)} not in the source"] * bool(
            new
        )
        if said:
            flags.append(Flag("numbers", "; ".join(said)))
    least, most = calibration.length_ratio if calibration else USUAL_RATIO
    ratio = length_ratio(*lengths)
    if not least <= ratio <= most:
        flags.append(
            Flag(
                "length",
                f"{lengths[1]} tokens for {lengths[0]}, {FURTHER} added to each: {ratio:.3g}, usual is {least:.3g} to "
                f"{most:.3g}",
            )
        )
    usual = max(LEAST_SEARCHED if searched else -math.inf, calibration.log_probability if calibration else -math.inf)
    if log_probability is not None and log_probability < usual:
        flags.append(
            Flag("mismatch", f"log-probability per token {log_probability:.2f}, usual is at least {usual:.2f}")
        )
    return flags


def find_loop(source: str, target: str) -> Repeated | None:
    """Returns the repetition of a translation that its source does not explain; None if there is none."""
    parts = Counter(_PART.findall(target))
    if max(parts.values(), default=0) < LEAST_TIMES and not _TWICE_AGAIN.search("".join(filter(str.isalpha, target))):
        return None  # a run of words consists of parts, each of which occurs as often
    loop = find_repetition(target)
    if loop is None:
        return None
    of_source = find_repetition(source)
    return None if of_source and loop.times <= of_source.times + 1 else loop


def beyond_source(source: str, target: str) -> int:
    """Returns the number of repeated words of a translation minus that of its source; the score of the flag "loop"."""
    here, there = find_repetition(target, least=2), find_repetition(source, least=2)
    return max(0, (here.beyond if here else 0) - (there.beyond if there else 0))


def find_repetition(text: str, least: int = LEAST_TIMES) -> Repeated | None:
    """Returns the longest part of a text that repeats one run of words; None if there is none.

    The run occurs at least `least` times. If words are not separated by spaces, or none repeat, characters are
    examined, with a larger minimum length.
    """
    if writes_spaces(text) and (found := _find_repeated_units(tokenize_words(text), " ", least, 1)):
        return found
    letters = "".join(filter(str.isalpha, text))
    if not _TWICE_AGAIN.search(letters):
        return None
    return _find_repeated_units(letters, "", max(least, LEAST_TIMES), LEAST_CHARACTERS)


def _find_repeated_units(units: Sequence[str], between: str, least: int, least_beyond: int) -> Repeated | None:
    best: Repeated | None = None
    if max(Counter(units).values(), default=0) < least:  # each unit of the run occurs at least as often
        return None
    for size in range(1, min(LONGEST_REPEATED, len(units) // 2) + 1):
        equal = 0
        for place in range(size, len(units)):
            equal = equal + 1 if units[place] == units[place - size] else 0
            times = equal // size + 1
            if times >= least and equal >= least_beyond and equal > (best.beyond if best else 0):
                first = place - equal - size + 1
                best = Repeated(between.join(units[first : first + size]), times, equal)
    return best


def measure_copying(source: str, target: str) -> tuple[float, int]:
    """Returns the share of a translation's words that its source has in the same order, and their number.

    Words have a letter and more than one character; case is ignored. The time is linear in the number of words: a line
    of more than MOST_COMPARED words is compared in parts, each with the source's part at the same relative position.
    """
    words = [
        [w.casefold() for w in tokenize_words(text) if len(w) > 1 and any(map(str.isalpha, w))]
        for text in (source, target)
    ]
    if not words[1]:
        return 0.0, 0
    parts = -(-max(map(len, words)) // MOST_COMPARED)
    count = 0
    for part in range(parts):
        src, tgt = (side[len(side) * part // parts : len(side) * (part + 1) // parts] for side in words)
        count += sum(block.size for block in SequenceMatcher(None, src, tgt, autojunk=False).get_matching_blocks())
    return count / len(words[1]), count


def _count_shared(source: str, target: str) -> int:
    """Returns the number of parts of words that two texts share, at least that of their shared words."""
    here, there = (Counter(_PART.findall(text.casefold())) for text in (source, target))
    return (here & there).total()


def find_changed_numbers(source: str, target: str) -> tuple[list[str], list[str]]:
    """Returns the numbers of a source that its translation lacks, and the translation's numbers that the source lacks.

    Only numbers in digits count. If numbers are lost and none is new, or the reverse, small numbers do not count: they
    may be words on the other side.
    """
    if not _DIGIT.search(source) and not _DIGIT.search(target):
        return [], []
    here, there = Counter(_numbers(source)), Counter(_numbers(target))
    lost, new = (sorted(side.elements(), key=lambda n: (len(n), n)) for side in (here - there, there - here))
    if not (lost and new):
        lost, new = ([n for n in side if len(n) > 2 or int(n) > SPELLED_OUT] for side in (lost, new))
    return lost, new


def _format_numbers(numbers: Sequence[str]) -> str:
    more = len(numbers) - MOST_NUMBERS
    return ", ".join(numbers[:MOST_NUMBERS]) + (f" and {more:,} more" if more > 0 else "")


def has_numbers(text: str) -> bool:
    """Returns True if a text has a number in digits."""
    return bool(_numbers(text))


def _numbers(text: str) -> list[str]:
    """Returns the runs of digits of a text; a separator of thousands is part of its number, any other one ends it.

    They are strings without leading zeros, since Python limits the digits that it converts to an integer.
    """
    joined = _THOUSANDS.sub(lambda found: re.sub(r"\D", "", found[0]), text)
    runs = ("".join(str(unicodedata.digit(digit)) for digit in run) for run in re.findall(r"\d+", joined))
    return [run.lstrip("0") or "0" for run in runs]


def length_ratio(source: int, target: int) -> float:
    """Returns the ratio of two lengths in tokens, with FURTHER added to both."""
    return (target + FURTHER) / (source + FURTHER)
