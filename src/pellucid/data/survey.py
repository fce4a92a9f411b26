"""Finds what is usual in a corpus, in a first pass: scripts, lengths, letters and languages of each side.

Of the text a bounded sample is kept, and of each pair two hashes.
"""

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.config.data import OnBadUtf8
from pellucid.data.parallel import END, ParallelText
from pellucid.data.patterns import is_marked_up, letters_and_marks
from pellucid.data.repeats import Repeats, hash_of, plain
from pellucid.data.scripts import letters_by_script

SAMPLE = 10_000
"""Pairs of the sample at most."""
FEW = 200
"""Pairs below which nothing is said of languages."""
EVERY = 10_000
"""Pairs between two tellings of how far it is."""
LONGEST = 1000
"""Characters of a line that are looked at."""
OWN = 0.2
"""The part of a side's lines from which on their script is one of its own."""
FOREIGN = 0.05
"""The part of a side's lines that may be of another language, and is not learnt from."""
SLACK = 10
"""Bytes added to each length: the ratio of short lines says little."""
UNSEEN = math.log(1e-3)
_WORD = re.compile(r"[^\W\d_]+")


class Language:
    """The language of one side: how probable each character is after the two before it, and which words are known."""

    def __init__(self, lines: Sequence[str]) -> None:
        one, other = lines[::2], lines[1::2]
        # Lines of another language must not be learnt from: those that look most foreign to the other half go first.
        self._learn(other)
        scores = [self.score(line) for line in one]
        bound = float(np.quantile(scores, FOREIGN)) if scores else 0.0
        self._learn([line for line, score in zip(one, scores, strict=True) if score >= bound])
        found = np.array([self.score(line) for line in other] or [0.0])
        self.usual: float = float(np.median(found))
        self.usually_known: float = float(np.median([self.known(line) for line in other] or [0.0]))
        self.deviation: float = max(1.4826 * float(np.median(np.abs(found - self.usual))), 0.05)

    def _learn(self, lines: Sequence[str]) -> None:
        trigrams, contexts, words = Counter[str](), Counter[str](), Counter[str]()
        for line in lines:
            trigrams.update(found := _trigrams(line))
            contexts.update(trigram[:2] for trigram in found)
            words.update(_words(line))
        self._logarithms = {
            trigram: math.log(count / (contexts[trigram[:2]] + 50)) for trigram, count in trigrams.items() if count > 1
        }
        self._words = frozenset(word for word, count in words.items() if count > 1)

    def score(self, line: str) -> float:
        """Returns the mean logarithm of the probability of a line's characters, in nats."""
        trigrams = _trigrams(line)
        known = self._logarithms
        return sum([known.get(trigram, UNSEEN) for trigram in trigrams]) / len(trigrams)

    def known(self, line: str) -> float:
        """Returns the part of a line's words that occur elsewhere on this side; 0 of none.

        It is the mean of the parts by words and by letters: those known by accident are short, and compounds are long.
        """
        words = _words(line)
        known = [word for word in words if word in self._words]
        return (len(known) / len(words) + len("".join(known)) / len("".join(words))) / 2 if words else 0.0

    def deviations_below(self, score: float) -> float:
        """Returns how many standard deviations a score is below what is usual."""
        return (self.usual - score) / self.deviation


def _words(line: str) -> list[str]:
    return _WORD.findall(line[:LONGEST].casefold())


def _trigrams(line: str) -> list[str]:
    line = f" {line[:LONGEST].casefold()} "
    return [line[start : start + 3] for start in range(len(line) - 2)] or [line]


@dataclass(frozen=True)
class Usual:
    """The usual in a corpus; of each side where there are two of something."""

    pairs: int
    scripts: tuple[frozenset[str], frozenset[str]]
    ratio: float
    """The median of the logarithm of the target's length over the source's, in bytes."""
    kana: tuple[bool, bool]
    """True where a line without Kana is none of the side's: it is Japanese."""
    letters: tuple[float, float]
    """The median part of the characters that are letters."""
    markup: bool
    """True where markup belongs to the text."""
    languages: tuple[Language, Language] | None
    """None where the sample is too small."""
    same: Repeats
    nearly: Repeats


def survey(
    texts: Sequence[ParallelText], on_bad_utf8: OnBadUtf8, progress: Callable[[int], object] = lambda pairs: None
) -> Usual:
    """Reads the texts once, and returns what is usual in them. `progress` is told how many pairs are read.

    Raises DataError as reading does.
    """
    hashes = array("q"), array("q")
    sample: list[tuple[str, str]] = []
    stride = 1
    for text in texts:
        for source, target in text.pairs(on_bad_utf8):
            if END in (source, target):
                continue
            if len(hashes[0]) % EVERY == 0:
                progress(len(hashes[0]))
            source, target = source or "", target or ""
            plain_source, plain_target = plain(source), plain(target)
            hashes[0].append(hash_of(source, target))
            hashes[1].append(hash_of(plain_source, plain_target) if plain_source and plain_target else 0)
            if len(hashes[0]) % stride == 0 and plain_source and plain_target:
                sample.append((source[:LONGEST], target[:LONGEST]))
                if len(sample) > SAMPLE:  # every other one, so that the sample is of the whole text however long it is
                    del sample[::2]
                    stride *= 2
    sides = [source for source, _ in sample], [target for _, target in sample]
    return Usual(
        pairs=len(hashes[0]),
        scripts=(_own_scripts(sides[0]), _own_scripts(sides[1])),
        ratio=float(np.median([ratio(*pair) for pair in sample])) if sample else 0.0,
        kana=(_is_japanese(sides[0]), _is_japanese(sides[1])),
        letters=(_usual_letters(sides[0]), _usual_letters(sides[1])),
        markup=sum(is_marked_up(source) for source in sides[0]) > OWN * len(sample),
        languages=(Language(sides[0]), Language(sides[1])) if len(sample) >= FEW else None,
        same=Repeats(hashes[0]),
        nearly=Repeats(hashes[1]),
    )


def ratio(source: str, target: str) -> float:
    """Returns the logarithm of a target's length over its source's, in bytes, which scripts differ less in than in
    characters.
    """
    return math.log((_size(target) + SLACK) / (_size(source) + SLACK))


def _size(line: str) -> int:
    return len(line) if line.isascii() else len(line.encode(errors="surrogatepass"))


def _own_scripts(lines: Sequence[str]) -> frozenset[str]:
    """Returns the scripts that lines of a side are mostly written in."""
    main, letters = Counter[str](), Counter[str]()
    for line in lines:
        found = letters_by_script(line)
        letters.update(found)
        if found:
            main[max(found, key=lambda script: found[script])] += 1
    own = {script for script, count in main.items() if count >= OWN * main.total()}
    # Japanese is written in both, in lines of either alone as well.
    if "Kana" in own or ("Han" in own and letters["Kana"] > 0.05 * letters.total()):
        own |= {"Han", "Kana"}
    return frozenset(own)


def _is_japanese(lines: Sequence[str]) -> bool:
    """Tells whether nearly all lines have Kana in them."""
    return sum("Kana" in letters_by_script(line) for line in lines) > 0.9 * len(lines) > 0


def _usual_letters(lines: Sequence[str]) -> float:
    return float(np.median([letters_and_marks(line) for line in lines])) if lines else 0.0
