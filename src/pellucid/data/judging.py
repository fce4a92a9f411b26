"""Judges pairs one by one: which faults each has. Training, `pellucid doctor` and `pellucid clean` ask one judge."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self

from pellucid.config import DataConfig
from pellucid.data.characters import control_character, is_encoded_twice
from pellucid.data.faults import OF_PAIRS, Fault
from pellucid.data.identification import Identifier
from pellucid.data.patterns import (
    addresses_in,
    agreement,
    letters_and_marks,
    longest_word,
    markup_in,
    numbers_in,
    repetition_in,
    without_addresses,
)
from pellucid.data.repeats import plain
from pellucid.data.scripts import SCRIPTS, UNSPACED, letters_by_script
from pellucid.data.survey import Usual, ratio
from pellucid.errors import ConfigError, argument, did_you_mean, shown

SHOWN = 60  # characters of a line in a message
PIECE = 16  # characters of a subword at most: SentencePiece's own bound
FEWEST_LETTERS = 4  # of which the script is looked at
LONG_ENOUGH = 20  # letters by which a language is known; half as many where a letter is a syllable or a word
NOT_SO_FAR, FAR, VERY_FAR = 3.0, 4.0, 6.0  # standard deviations below what is usual: another language, where
MANY_KNOWN = 0.5  # of the words are known, and no more is looked at
FEW_KNOWN = 0.25  # of the words are known; names are unusual, the words around them are not
BELOW = 2.0  # standard deviations from which on the other side's language may be the right one
CLEARLY = 0.5  # nats a character by which it must be
SYLLABLES = UNSPACED | {"Hangul"}

HeldOut = Mapping[Fault, tuple[str, Sequence[str]]]
"""The file of the sources, and the sources, by "valid" and "test" where these are given."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of what is still usual."""

    max_ratio: float = 3.0
    """Times that a translation may be longer or shorter than usual, in bytes; or than its source, in `ratio_unit`."""
    ratio_unit: Literal["usual", "words", "characters"] = "usual"
    min_words: int = 1
    """Words of a side at least; characters where `length_unit` says so."""
    max_words: int = 0
    """Words of a side at most; 0: as many tokens as `data.max_length` says."""
    length_unit: Literal["words", "characters"] = "words"
    max_word_length: int = 40
    """Characters of a word at most."""
    max_foreign: float = 0.5
    """The part of the letters of a side that may be of another script."""
    scripts: tuple[str, str] = ("", "")
    """The script of each side; empty: what most of it is written in."""
    languages: tuple[str, str] = ("", "")
    """The language of each side, to be identified line by line; empty: by the letters that are usual on each side."""
    min_letters: float = 0.5
    """The part of the usual letters a character that a line must have."""
    letters_of: Literal["usual", "characters"] = "usual"
    """The whole of which `min_letters` is a part: what is usual, or all characters but spaces."""
    max_repetitions: int = 3
    """Times that a line may say the same in a row."""
    min_agreement: float = 0.6
    """The part of the numbers of both sides that must be the same."""

    def __post_init__(self) -> None:
        for name in ("max_foreign", "min_letters", "min_agreement"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{argument(name, getattr(self, name))} must be from 0 to 1")
        for script in self.scripts:
            if script and script not in SCRIPTS:
                raise ConfigError(
                    f"no script `{shown(script)}` is known{did_you_mean(script, SCRIPTS)}",
                    f"choose one of {', '.join(sorted(SCRIPTS))}",
                )
        for name in ("max_word_length", "max_repetitions"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{argument(name, getattr(self, name))} must be at least 1")
        for name in ("min_words", "max_words"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{argument(name, getattr(self, name))} must be at least 0")
        if not 1 < self.max_ratio < math.inf:
            raise ConfigError(
                f"{argument('max_ratio', self.max_ratio)} must be above 1",
                "3 lets a translation be three times as long as usual, or a third",
            )
        if self.max_words and self.max_words < self.min_words:
            raise ConfigError(
                f"{argument('max_words', self.max_words)} must be at least {argument('min_words', self.min_words)}"
            )

    def but(self, **changed: Any) -> Self:
        """Returns the same with other values."""
        return replace(self, **changed)


class Flaw(NamedTuple):
    """A fault of a pair: its kind, the side on which it is first (0 source, 1 target), and what to say of it."""

    fault: Fault
    side: int
    detail: str
    of: str = "lines"
    line: int = 0
    """The line of the held-out text that it is."""


@dataclass
class Judge:
    """Says of each pair which faults it has.

    Without `usual` it looks for what can be told of a pair alone, as training does.
    """

    data: DataConfig
    held_out: HeldOut
    usual: Usual | None = None
    limits: Limits = field(default_factory=Limits)
    rules: frozenset[Fault] = frozenset(OF_PAIRS)
    alone: bool = False
    """There is one side."""
    labelled: bool = False
    """The targets are labels."""

    def __post_init__(self) -> None:
        self._fewest_tokens = _fewest_tokens(self.data.tokenizer)
        self._shortest_long = self.data.max_length // (4 if self.data.tokenizer == "bytes" else 1)
        self._held_out = {
            fault: _numbered(sources, nearly=self.usual is not None)
            for fault, (_, sources) in self.held_out.items()
            if fault in self.rules
        }
        self._texts = (0,) if self.alone or self.labelled else (0, 1)
        own = self.usual.scripts if self.usual else (frozenset[str](), frozenset[str]())
        # Who writes in Kana writes in Han, too.
        given = [frozenset({"Han", "Kana"} if script == "Kana" else {script}) for script in self.limits.scripts]
        self._scripts = [given[side] if self.limits.scripts[side] else own[side] for side in (0, 1)]
        usual = self.usual.letters if self.usual else (0.0, 0.0)
        # Where letters are few, as in dates and codes, no line has too few of them.
        self._fewest_letters = [self.limits.min_letters * part if part > 0.5 else 0.0 for part in usual]
        if self.limits.letters_of == "characters":
            self._fewest_letters = [self.limits.min_letters] * 2
        names = self.limits.languages
        self._identifier = Identifier() if any(names) and "language" in self.rules else None
        for name in names:
            if self._identifier and name:
                self._identifier.check(name)

    def flaws(self, source: str, target: str, mended: tuple[bool, bool] = (False, False)) -> list[Flaw]:
        """Returns the faults of a pair by itself; but for those that follow from an empty side.

        `mended`: which sides were not UTF-8, so that their U+FFFD come from reading.
        """
        found: list[Flaw] = []
        sides = (source, target)
        for side in (0,) if self.alone else (0, 1):
            text = sides[side]
            if not (text.isascii() and text.isprintable()):
                found += _of_characters(text, side, mended[side])
            if self._is_long(text) and (detail := self._too_long(text)):
                found.append(Flaw("too_long", side, detail))
        stripped = source.strip()
        if not stripped or not target.strip():
            found.append(Flaw("empty", int(bool(stripped)), "", "pairs"))
            return [flaw for flaw in found if flaw.fault in self.rules]
        found += self._leaks(source, stripped)
        if stripped == target.strip() and not self.alone:
            found.append(Flaw("copy", 0, shortened(source), "pairs"))
        if self.usual:
            copied = any(flaw.fault == "copy" for flaw in found)
            besides = self._beyond_the_usual(self.usual, sides)
            # That a copy is in the wrong language is no news.
            found += [flaw for flaw in besides if not (copied and flaw.fault in ("script", "language"))]
        return [flaw for flaw in found if flaw.fault in self.rules]

    def _is_long(self, text: str) -> bool:
        return len(text) > (self.limits.max_words or self._shortest_long)

    def _too_long(self, text: str) -> str:
        if most := self.limits.max_words:
            words = self._length(text)
            return f"{words:,} {self.limits.length_unit}" if words > most else ""
        tokens = self._fewest_tokens(text)
        if self.usual and self.data.tokenizer in ("bpe", "unigram"):
            tokens = max(tokens, len(text) // PIECE)
        return f"{tokens:,} tokens at least" if tokens > self.data.max_length else ""

    def _length(self, text: str) -> int:
        return len(text.split()) if self.limits.length_unit == "words" else len(text)

    def _leaks(self, source: str, stripped: str) -> list[Flaw]:
        found = []
        for fault, (exactly, nearly) in self._held_out.items():
            line = exactly.get(stripped, 0)
            like = "" if line else " but for case and punctuation"
            if not line and nearly:
                line = nearly.get(plain(source), 0)
            if line:
                found.append(Flaw(fault, 0, f"it is line {line:,} of `{self.held_out[fault][0]}`{like}", line=line))
        return found

    def _beyond_the_usual(self, usual: Usual, sides: tuple[str, str]) -> list[Flaw]:
        """Returns the faults that show only beside the rest of the corpus."""
        found: list[Flaw] = []
        for side in self._texts:
            text = sides[side]
            words = without_addresses(text)
            scripts = letters_by_script(words)
            if detail := self._foreign(scripts, side):
                found.append(Flaw("script", side, detail))
            elif "language" in self.rules and (detail := self._other_language(usual, words, scripts, side)):
                found.append(Flaw("language", side, detail))
            if not usual.markup and (markup := markup_in(text)):
                found.append(Flaw("markup", side, shortened(markup)))
            if (part := letters_and_marks(text)) < self._fewest_letters[side]:
                found.append(Flaw("letters", side, f"{part:.0%} of its characters".replace("%", " %")))
            repeated, times = repetition_in(text, self.limits.max_repetitions)
            if repeated:
                found.append(Flaw("repetition", side, f"{times:,} times `{shortened(repeated)}`"))
            if word := longest_word(text, self.limits.max_word_length):
                found.append(Flaw("long_word", side, f"{len(word):,} characters"))
            if self.limits.min_words > 1 and (length := self._length(text)) < self.limits.min_words:
                found.append(Flaw("too_short", side, f"{length:,} {self.limits.length_unit}"))
        found += _of_addresses(sides, self._texts)
        if len(self._texts) == 2:
            found += self._of_both(usual, *sides)
        # One of each kind: a fault that is on both sides is told of the first.
        return list({flaw.fault: flaw for flaw in reversed(found)}.values())[::-1]

    def _foreign(self, scripts: Mapping[str, int], side: int) -> str:
        letters, own = sum(scripts.values()), self._scripts[side]
        if letters < FEWEST_LETTERS or not own:
            return ""
        foreign = {script: count for script, count in scripts.items() if script not in own}
        if sum(foreign.values()) <= self.limits.max_foreign * letters:
            return ""
        script = max(foreign, key=lambda script: foreign[script])
        return f"{foreign[script]:,} of {letters:,} letters are {script}"

    def _other_language(self, usual: Usual, text: str, scripts: Mapping[str, int], side: int) -> str:
        """Returns in words why a line is in another language than its side, or an empty string.

        By an identifier where the language is given, else by the letters that are usual on both sides.
        """
        letters = sum(count * (1 + (script in SYLLABLES)) for script, count in scripts.items())
        if letters < LONG_ENOUGH or not usual.languages:
            return ""
        if usual.kana[side] and "Kana" not in scripts and scripts.get("Han", 0) >= LONG_ENOUGH // 2:
            return "there is no Kana in it"
        known, usually = usual.languages[side].known(text), usual.languages[side].usually_known
        if known > MANY_KNOWN:
            return ""
        score = usual.languages[side].score(text)
        below = usual.languages[side].deviations_below(score)
        if below < BELOW:
            return ""
        if self._identifier and (name := self.limits.languages[side]):
            other, probability = self._identifier.identify(text)
            return f"{other}, not {name} ({probability:.2f})" if other != name and probability > 0.9 else ""
        if len(self._texts) == 2 and usual.languages[1 - side].score(text) > score + CLEARLY:
            return "it reads like the other side"
        # Where words have no spaces between them, none is known, and the letters alone must do.
        unspaced = sum(scripts.get(script, 0) for script in UNSPACED) > 0.5 * sum(scripts.values())
        # Where half of a line is usually known, one without a known word needs to be less far.
        far = VERY_FAR if unspaced else FAR if known > 0 or usually < 0.5 else NOT_SO_FAR
        if known > FEW_KNOWN or below < far:
            return ""
        return f"it reads like neither side ({below:.1f} standard deviations)"

    def _of_both(self, usual: Usual, source: str, target: str) -> list[Flaw]:
        found = []
        if self.limits.ratio_unit == "usual":
            off, than = math.exp(ratio(source, target) - usual.ratio), "times as long as usual"
        else:
            unit = self.limits.ratio_unit
            lengths = [len(text.split()) if unit == "words" else len(text) for text in (source, target)]
            off, than = lengths[1] / max(lengths[0], 1), f"times the {unit}"
        if max(off, 1 / off) > self.limits.max_ratio:
            found.append(Flaw("ratio", 1, f"{off:.2g} {than}", "pairs"))
        numbers, others = numbers_in(source), numbers_in(target)
        if numbers and others and agreement(numbers, others) < self.limits.min_agreement:
            detail = f"{', '.join(map(str, numbers[:5]))} and {', '.join(map(str, others[:5]))}"
            found.append(Flaw("numbers", 1, detail, "pairs"))
        return found


def _of_characters(text: str, side: int, mended: bool) -> list[Flaw]:
    found = []
    if is_encoded_twice(text):
        found.append(Flaw("mojibake", side, shortened(text)))
    elif character := control_character(text):
        found.append(Flaw("control", side, character))
    if "\ufffd" in text and not mended:
        found.append(Flaw("lost", side, shortened(text)))
    return found


def _of_addresses(sides: tuple[str, str], texts: Sequence[int]) -> list[Flaw]:
    """Returns the fault of a pair whose addresses differ, or that holds hardly anything else."""
    found = [addresses_in(sides[side]) for side in texts]
    for side, addresses in zip(texts, found, strict=True):
        if 2 * sum(map(len, addresses)) > len(sides[side]):
            return [Flaw("address", side, shortened(addresses[0]), "pairs")]
    if len(found) == 2 and set(found[0]) != set(found[1]):
        alone = set(found[0]) ^ set(found[1])
        side, address = next((side, each) for side in (0, 1) for each in found[side] if each in alone)
        return [Flaw("address", side, shortened(address), "pairs")]
    return []


def shortened(line: str) -> str:
    """Returns a line, or its beginning, as it can be shown."""
    shown = "".join(character if character.isprintable() else " " for character in line[:SHOWN].strip())
    return shown + ("..." if len(line) > SHOWN else "")


def _numbered(sources: Sequence[str], nearly: bool) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the line, from 1, of each sentence that is not empty: as it is, and without case and punctuation."""
    lines = [(source, number) for number, source in enumerate(sources, start=1) if source.strip()]
    exactly = {source.strip(): number for source, number in lines}
    return exactly, {key: number for source, number in lines if (key := plain(source))} if nearly else {}


def _fewest_tokens(tokenizer: str) -> Callable[[str], int]:
    """Returns a lower bound of a line's tokens, before there is a tokenizer."""
    if tokenizer == "bytes":
        return lambda line: len(line.encode())
    return len if tokenizer == "characters" else lambda line: len(line.split())
