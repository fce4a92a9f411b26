"""Guards: what is odd about a translation and can be seen without a reference, with the evidence for it."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pellucid.evaluation.calibration import Calibration
from pellucid.text.sentences import writes_spaces
from pellucid.text.words import cut_words

LONGEST_REPEATED = 12
"""Words of the longest run whose repetition is looked for."""
LEAST_TIMES, LEAST_CHARACTERS = 3, 8
COPIED = 0.5
"""The share of a translation's words that are its source's from which on it is a copy, unless references have more."""
LEAST_COPIED = 3
SPELLED_OUT = 12
"""Numbers up to it are written as words as often as not."""
NUMBERS_KEPT = 0.5
"""The share of references that have the numbers of their source below which a lost number is nothing odd."""
FURTHER = 5
"""Tokens that are added to both lengths, so that a short line's ratio is not odd by one token."""
USUAL_RATIO = (1 / 3, 3.0)
"""The bounds of a ratio of lengths where nobody has measured them."""
_THOUSANDS = re.compile(r"(?<!\d)\d{1,3}(?:([.,'’\u00a0\u202f ])\d{3})(?:\1\d{3})*(?!\d)")
"""A number whose thousands are parted, by one mark: in "2016 300" there are two numbers."""


@dataclass(frozen=True)
class Flag:
    """Something odd about a translation."""

    name: str
    """loop, copy, empty, numbers, length or mismatch."""
    evidence: str
    """The reason for it, in a few words."""


@dataclass(frozen=True)
class Repeated:
    """A run of words, or characters, that stands several times in a row."""

    text: str
    times: int
    beyond: int
    """The words that stand beyond the first time, or characters for which a text has no words."""


def flags_of(
    source: str, target: str, lengths: tuple[int, int], log_probability: float | None, calibration: Calibration | None
) -> list[Flag]:
    """Returns what is odd about a translation; an empty list where nothing is.

    Args:
        lengths: tokens of source and target.
        log_probability: the mean a token of the target, end token included; None: not known.
        calibration: what is usual; None: not known, and then nothing is said of a mismatch.
    """
    if not source.strip() or not target.strip():
        empty = [side for side, text in (("source", source), ("translation", target)) if not text.strip()]
        return [Flag("empty", f"the {empty[0]} has no text")] if len(empty) == 1 else []
    flags = []
    loop, of_source = repeated(target), repeated(source)
    if loop and not (of_source and loop.times <= of_source.times + 1):
        flags.append(Flag("loop", f'"{loop.text}" {loop.times} times in a row'))
    share, count = copied(source, target)
    if count >= LEAST_COPIED and share > max(COPIED, calibration.copied if calibration else 0.0):
        flags.append(Flag("copy", f"{share:.0%} of the words are the source's, in its order"))
    if calibration is None or calibration.numbers_kept >= NUMBERS_KEPT:
        lost, new = changed_numbers(source, target)
        said = [f"{', '.join(lost)} lost"] * bool(lost) + [f"{', '.join(new)} not in the source"] * bool(new)
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
    if calibration is not None and log_probability is not None and log_probability < calibration.log_probability:
        flags.append(
            Flag(
                "mismatch",
                f"log-probability a token {log_probability:.2f}, usual is {calibration.log_probability:.2f} at least",
            )
        )
    return flags


def beyond_source(source: str, target: str) -> int:
    """Returns how many words of a translation repeat those before them, more than the source's do; the loop's score."""
    here, there = repeated(target, least=2), repeated(source, least=2)
    return max(0, (here.beyond if here else 0) - (there.beyond if there else 0))


def repeated(text: str, least: int = LEAST_TIMES) -> Repeated | None:
    """Returns the longest stretch of a text that is one run of words again and again; None where there is none.

    The run stands at least `least` times. Where no spaces part words, or none repeat, characters are looked at, of
    which a stretch must be longer.
    """
    if writes_spaces(text) and (found := _repeated(cut_words(text), " ", least, 1)):
        return found
    return _repeated([c for c in text if c.isalpha()], "", max(least, LEAST_TIMES), LEAST_CHARACTERS)


def _repeated(units: Sequence[str], between: str, least: int, least_beyond: int) -> Repeated | None:
    best: Repeated | None = None
    for size in range(1, min(LONGEST_REPEATED, len(units) // 2) + 1):
        equal = 0
        for place in range(size, len(units)):
            equal = equal + 1 if units[place] == units[place - size] else 0
            times = equal // size + 1
            if times >= least and equal >= least_beyond and equal > (best.beyond if best else 0):
                first = place - equal - size + 1
                best = Repeated(between.join(units[first : first + size]), times, equal)
    return best


def copied(source: str, target: str) -> tuple[float, int]:
    """Returns the share of a translation's words that its source has in the same order, and their number.

    Words have a letter and more than one character; upper and lower case are one.
    """
    words = [
        [w.casefold() for w in cut_words(text) if len(w) > 1 and any(map(str.isalpha, w))] for text in (source, target)
    ]
    if not words[1]:
        return 0.0, 0
    blocks = SequenceMatcher(None, words[0], words[1], autojunk=False).get_matching_blocks()
    count = sum(block.size for block in blocks)
    return count / len(words[1]), count


def changed_numbers(source: str, target: str) -> tuple[list[str], list[str]]:
    """Returns the numbers of a source that its translation lacks, and those of the translation that the source lacks.

    Only what is written in digits is seen. A small number that is lost while none is new, or new while none is lost,
    may be a word on the other side, and does not count.
    """
    here, there = Counter(_numbers(source)), Counter(_numbers(target))
    lost, new = (sorted(side.elements(), key=lambda n: (len(n), n)) for side in (here - there, there - here))
    if not (lost and new):
        lost, new = ([n for n in side if len(n) > 2 or int(n) > SPELLED_OUT] for side in (lost, new))
    return lost, new


def has_numbers(text: str) -> bool:
    """Tells whether a text has a number in digits."""
    return bool(_numbers(text))


def _numbers(text: str) -> list[str]:
    """Returns the runs of digits of a text; a mark between thousands belongs to the number, any other one parts two.

    They are texts without zeros before them: a run may have more digits than Python makes a number of.
    """
    joined = _THOUSANDS.sub(lambda found: re.sub(r"\D", "", found[0]), text)
    runs = ("".join(str(unicodedata.digit(digit)) for digit in run) for run in re.findall(r"\d+", joined))
    return [run.lstrip("0") or "0" for run in runs]


def length_ratio(source: int, target: int) -> float:
    """Returns the ratio of two lengths in tokens, with some added to both."""
    return (target + FURTHER) / (source + FURTHER)
