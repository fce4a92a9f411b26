"""Computes the usual values of a corpus in a first pass: scripts, lengths, letters and languages of each side.

Only a bounded sample of the text and two hashes per pair stay in memory.
"""

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.config import DataConfig
from pellucid.data.duplicates import DuplicateIndex, hash_pair, normalize_for_dedup
from pellucid.data.line_patterns import letters_and_marks, tags_in
from pellucid.data.parallel import END, ParallelText
from pellucid.data.repairs import Repairs
from pellucid.data.scripts import letters_by_script, weight_by_alphabet
from pellucid.text.normalization import normalize

SAMPLE = 10_000
"""Pairs in the sample at most."""
FEW = 200
"""Pairs required for a profile of languages."""
HANDFUL = 64
"""Pairs required for usual lengths and letters."""
EVERY = 10_000
"""Pairs between two progress messages."""
LONGEST = 1000
"""Characters of a line at most that are used."""
OWN = 0.2
"""Smallest fraction of a side's lines with some content for which the content belongs to the text."""
OWN_SCRIPT = 0.1
"""Smallest fraction of a side's lines for which their script is one of its main scripts."""
FOREIGN = 0.05
"""The fraction of a side's lines that may be in another language, and is excluded from the statistics."""
SLACK = 10
"""Bytes added to each length: the ratio of short lines is unreliable."""
UNSEEN = math.log(1e-3)
_WORD = re.compile(r"[^\W\d_]+")


class CharacterTrigrams:
    """The language of one side: the probability of each character given the two before it, and the known words."""

    def __init__(self, lines: Sequence[str]) -> None:
        one, other = lines[::2], lines[1::2]
        # Lines of another language are excluded: the lines that the model of the other half scores lowest.
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
        """Returns the fraction of a line's words that occur elsewhere on this side; 0 for a line without words.

        It is the mean of the fractions of words and of letters: words known by accident are short, compounds are long.
        """
        words = _words(line)
        known = [word for word in words if word in self._words]
        return (len(known) / len(words) + len("".join(known)) / len("".join(words))) / 2 if words else 0.0

    def deviations_below(self, score: float) -> float:
        """Returns the number of standard deviations by which a score is below the usual one."""
        return (self.usual - score) / self.deviation


def _words(line: str) -> list[str]:
    return _WORD.findall(line[:LONGEST].casefold())


def remove_words(line: str, other: str) -> str:
    """Returns a line without the words that also occur in another line."""
    there = frozenset(_words(other))
    return _WORD.sub(lambda word: "" if word[0].casefold() in there else word[0], line) if there else line


def _trigrams(line: str) -> list[str]:
    line = f" {line[:LONGEST].casefold()} "
    return [line[start : start + 3] for start in range(len(line) - 2)] or [line]


@dataclass(frozen=True)
class CorpusProfile:
    """The usual values of a corpus; pairs of values are per side."""

    pairs: int
    scripts: tuple[frozenset[str], frozenset[str]]
    ratio: float | None
    """The median of the logarithm of the target's length over the source's, in bytes; None if the sample is too
    small."""
    kana: tuple[bool, bool]
    """True if a side is Japanese, so that a line without Kana is in another language."""
    letters: tuple[float, float]
    """The median fraction of characters that are letters; 0 if the sample is too small."""
    markup: float
    """The fraction of the pairs with the same tags on both sides: above OWN, tags belong to the text."""
    copied: float
    """The fraction of the sources' characters in pairs whose target equals the source: names hardly count."""
    languages: tuple[CharacterTrigrams, CharacterTrigrams] | None
    """None if the sample is too small."""
    same: DuplicateIndex
    nearly: DuplicateIndex


def profile_corpus(
    texts: Sequence[ParallelText],
    data: DataConfig,
    progress: Callable[[int], object] = lambda pairs: None,
    repairs: Repairs | None = None,
) -> CorpusProfile:
    """Reads the texts once and returns their profile, after normalization by `data.normalize`.

    Args:
        progress: is called with the number of pairs read so far.
        repairs: are applied first. The fraction of pairs with tags is that of the original texts.

    Raises DataError for unreadable texts.
    """
    hashes = array("q"), array("q")
    sample: list[tuple[str, str]] = []
    stride, tagged, copied, characters = 1, 0, 0, 0
    for text in texts:
        for source, target in text.pairs(data.on_bad_utf8):
            if END in (source, target):
                continue
            if len(hashes[0]) % EVERY == 0:
                progress(len(hashes[0]))
            source, target = source or "", target or ""
            tagged += _are_tagged_alike(source, target)
            if repairs:
                source, target, _ = repairs.repair(source, target)
            source, target = (normalize(side, data.normalize).strip() for side in (source, target))
            characters += len(source)
            copied += len(source) if source == target else 0
            plain_source, plain_target = normalize_for_dedup(source), normalize_for_dedup(target)
            hashes[0].append(hash_pair(source, target))
            hashes[1].append(hash_pair(plain_source, plain_target) if plain_source and plain_target else 0)
            if len(hashes[0]) % stride == 0 and plain_source and plain_target:
                sample.append((source[:LONGEST], target[:LONGEST]))
                if len(sample) > SAMPLE:  # every other one, so that the sample covers the whole text
                    del sample[::2]
                    stride *= 2
    sides = [source for source, _ in sample], [target for _, target in sample]
    enough = len(sample) >= HANDFUL
    return CorpusProfile(
        pairs=len(hashes[0]),
        scripts=(_find_main_scripts(sides[0]), _find_main_scripts(sides[1])),
        ratio=float(np.median([ratio(*pair) for pair in sample])) if enough else None,
        kana=(_is_japanese(sides[0]), _is_japanese(sides[1])),
        letters=(_usual_letters(sides[0]), _usual_letters(sides[1])) if enough else (0.0, 0.0),
        markup=tagged / max(len(hashes[0]), 1),
        copied=copied / max(characters, 1),
        languages=(CharacterTrigrams(sides[0]), CharacterTrigrams(sides[1])) if len(sample) >= FEW else None,
        same=DuplicateIndex(hashes[0]),
        nearly=DuplicateIndex(hashes[1]),
    )


def ratio(source: str, target: str) -> float:
    """Returns the logarithm of a target's length over its source's, in bytes, which differ less between scripts than
    characters.
    """
    return math.log((_size(target) + SLACK) / (_size(source) + SLACK))


def _size(line: str) -> int:
    return len(line) if line.isascii() else len(line.encode(errors="surrogatepass"))


def _find_main_scripts(lines: Sequence[str]) -> frozenset[str]:
    """Returns the main scripts of a side's lines."""
    main, letters = Counter[str](), Counter[str]()
    for line in lines:
        found = weight_by_alphabet(letters_by_script(line))
        letters.update(found)
        if found:
            main[max(found, key=lambda script: found[script])] += 1
    own = {script for script, count in main.items() if count >= OWN_SCRIPT * main.total()}
    # Japanese uses both, also in lines that have only one of them.
    if "Kana" in own or ("Han" in own and letters["Kana"] > 0.05 * letters.total()):
        own |= {"Han", "Kana"}
    return frozenset(own)


def _is_japanese(lines: Sequence[str]) -> bool:
    """Returns True if nearly all lines have Kana."""
    return sum("Kana" in letters_by_script(line) for line in lines) > 0.9 * len(lines) > 0


def _usual_letters(lines: Sequence[str]) -> float:
    return float(np.median([letters_and_marks(line) for line in lines]))


def _are_tagged_alike(source: str, target: str) -> bool:
    tags = tags_in(source)
    return bool(tags) and sorted(tags) == sorted(tags_in(target))
