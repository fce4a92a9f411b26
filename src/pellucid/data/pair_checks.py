"""Checks single pairs for issues. Training, `pellucid doctor` and `pellucid clean` use the same checker."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Self

from pellucid.config import DataConfig
from pellucid.data.characters import control_character, is_encoded_twice
from pellucid.data.duplicates import normalize_for_dedup
from pellucid.data.identification import Identifier
from pellucid.data.issues import OF_PAIRS, IssueKind
from pellucid.data.line_patterns import (
    address_apart,
    agreement,
    entity_in,
    letters_and_marks,
    longest_word,
    markup_in,
    numbers_in,
    remove_addresses,
    repetition_in,
    tags_in,
)
from pellucid.data.profile import OWN, CorpusProfile, ratio, remove_words
from pellucid.data.scripts import SCRIPTS, UNSPACED, letters_by_script, weight_by_alphabet, words_by_script
from pellucid.errors import ConfigError, did_you_mean, format_argument, format_value
from pellucid.text.normalization import normalize

SHOWN = 60  # characters of a line in a message
PIECE = 16  # characters of a subword at most: SentencePiece's own bound
FEWEST_LETTERS = 4  # letters at least for the check of the script; characters at least for the fraction of letters
LONG_ENOUGH = 20  # letters of an alphabet at least for the check of the language
NOT_SO_FAR, FAR, VERY_FAR = 3.0, 4.0, 6.0  # standard deviations below the usual score: another language
MANY_KNOWN = 0.5  # fraction of known words above which the language is not checked further
FEW_KNOWN = 0.25  # fraction of known words above which a line is not in another language; names are rarely known
BELOW = 2.0  # standard deviations from which on the other side's language may be the right one
CLEARLY = 0.5  # nats per character by which the other side's language must score higher

HeldOut = Mapping[IssueKind, tuple[str, Sequence[str]]]
"""The file of the held-out sources, and the sources, by "valid" and "test" where these are given."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits beyond which a pair has an issue."""

    max_ratio: float = 3.0
    """Factor by which a translation may be longer or shorter than usual (bytes), or than its source in `ratio_unit`."""
    ratio_unit: Literal["usual", "words", "characters"] = "usual"
    min_words: int = 1
    """Words of a side at least; characters if `length_unit` is "characters"."""
    max_words: int = 0
    """Words of a side at most; 0: at most `data.max_length` tokens."""
    length_unit: Literal["words", "characters"] = "words"
    max_word_length: int = 40
    """Characters of a word at most."""
    max_other_script: float = 0.5
    """The fraction of a side's letters that may be of another script."""
    scripts: tuple[str, str] = ("", "")
    """The script of each side; empty: its main scripts."""
    languages: tuple[str, str] = ("", "")
    """The language of each side, identified per line; empty: scored by the usual letters of each side."""
    min_letters: float = 0.5
    """The fraction of letters that a line must have, relative to `letters_of`."""
    letters_of: Literal["usual", "characters"] = "usual"
    """The reference of `min_letters`: the usual fraction of letters, or all characters except spaces."""
    max_repetitions: int = 3
    """Times that a line may repeat the same text in a row."""
    min_agreement: float = 0.6
    """The fraction of the numbers of both sides that must be equal."""

    def __post_init__(self) -> None:
        for name in ("max_other_script", "min_letters", "min_agreement"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{format_argument(name, getattr(self, name))} must be from 0 to 1")
        for script in self.scripts:
            if script and script not in SCRIPTS:
                raise ConfigError(
                    f"unknown script `{format_value(script)}`{did_you_mean(script, SCRIPTS)}",
                    f"choose one of {', '.join(sorted(SCRIPTS))}",
                )
        for name in ("max_word_length", "max_repetitions"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{format_argument(name, getattr(self, name))} must be at least 1")
        for name in ("min_words", "max_words"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{format_argument(name, getattr(self, name))} must be at least 0")
        if not 1 < self.max_ratio < math.inf:
            raise ConfigError(
                f"{format_argument('max_ratio', self.max_ratio)} must be above 1",
                "3 allows a translation of three times the usual length, or a third of it",
            )
        if self.max_words and self.max_words < self.min_words:
            raise ConfigError(
                f"{format_argument('max_words', self.max_words)} must be at least "
                f"{format_argument('min_words', self.min_words)}"
            )

    def but(self, **changed: Any) -> Self:
        """Returns a copy with other values."""
        return replace(self, **changed)


class PairIssue(NamedTuple):
    """An issue of a pair: its kind, the first side that has it (0 source, 1 target), and a detail."""

    fault: IssueKind
    side: int
    detail: str
    of: str = "lines"
    line: int = 0
    """The line of the held-out text that the source matches."""


@dataclass
class PairChecker:
    """Finds the issues of each pair.

    Without `usual` it uses only the checks that need a single pair, as training does.
    """

    data: DataConfig
    held_out: HeldOut
    usual: CorpusProfile | None = None
    limits: Limits = field(default_factory=Limits)
    rules: frozenset[IssueKind] = frozenset(OF_PAIRS)
    alone: bool = False
    """There is one side."""
    labelled: bool = False
    """The targets are labels."""

    def __post_init__(self) -> None:
        self._fewest_tokens = _fewest_tokens(self.data.tokenizer)
        self._shortest_long = self.data.max_length // (4 if self.data.tokenizer == "bytes" else 1)
        self._held_out = {
            fault: self._number_sentences(sources)
            for fault, (_, sources) in self.held_out.items()
            if fault in self.rules
        }
        self._texts = (0,) if self.alone or self.labelled else (0, 1)
        own = self.usual.scripts if self.usual else (frozenset[str](), frozenset[str]())
        # Text in Kana also has Han.
        given = [frozenset({"Han", "Kana"} if script == "Kana" else {script}) for script in self.limits.scripts]
        self._scripts = [given[side] if self.limits.scripts[side] else own[side] for side in (0, 1)]
        usual = self.usual.letters if self.usual else (0.0, 0.0)
        # If letters are rare in the corpus, as in dates and codes, their fraction is not checked.
        self._fewest_letters = [self.limits.min_letters * part if part > 0.5 else 0.0 for part in usual]
        if self.limits.letters_of == "characters":
            self._fewest_letters = [self.limits.min_letters] * 2
        names = self.limits.languages
        self._identifier = Identifier() if any(names) and "language" in self.rules else None
        for name in names:
            if self._identifier and name:
                self._identifier.check(name)

    def check_pair(self, source: str, target: str, undecoded: tuple[bool, bool] = (False, False)) -> list[PairIssue]:
        """Returns the issues of a single pair, except the consequences of an empty side.

        `undecoded`: which sides were not UTF-8, so that their U+FFFD come from reading.
        """
        found: list[PairIssue] = []
        for side, text in list(enumerate((source, target)))[: 1 if self.alone else 2]:
            if not (text.isascii() and text.isprintable()):
                found += self._check_characters(text, side, undecoded[side])
        sides = self.normalize(source), self.normalize(target)
        for side in (0,) if self.alone else (0, 1):
            if self._is_long(sides[side]) and (detail := self._too_long(sides[side])):
                found.append(PairIssue("too_long", side, detail))
        if not sides[0] or not sides[1]:
            found.append(PairIssue("empty", int(bool(sides[0])), "", "pairs"))
            return [flaw for flaw in found if flaw.fault in self.rules]
        found += self._leaks(sides[0])
        if sides[0] == sides[1] and not self.alone:
            found.append(PairIssue("copy", 0, shorten(source), "pairs"))
        if self.usual:
            copied = any(flaw.fault == "copy" for flaw in found)
            besides = self._beyond_the_usual(self.usual, sides)
            # A copy is always in the wrong language.
            found += [flaw for flaw in besides if not (copied and flaw.fault in ("script", "language"))]
        return [flaw for flaw in found if flaw.fault in self.rules]

    def normalize(self, text: str) -> str:
        """Returns a text as the tokenizer reads it, without spaces at its ends; this form decides equality."""
        return _normalize_stripped(text, self.data.normalize)

    def _is_long(self, text: str) -> bool:
        return len(text) > (self.limits.max_words or self._shortest_long)

    def _too_long(self, text: str) -> str:
        if most := self.limits.max_words:
            words = self._length(text)
            return f"{words:,} {self.limits.length_unit}" if words > most else ""
        tokens = self._fewest_tokens(text)
        if self.usual and self.data.tokenizer in ("bpe", "unigram"):
            tokens = max(tokens, len(text) // PIECE)
        return f"at least {tokens:,} tokens" if tokens > self.data.max_length else ""

    def _length(self, text: str) -> int:
        return len(text.split()) if self.limits.length_unit == "words" else len(text)

    def _number_sentences(self, sources: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
        """Returns the line, from 1, of each sentence that is not empty: normalized as for the tokenizer and, with
        `usual`, also without case and punctuation.
        """
        lines = [(text, number) for number, source in enumerate(sources, start=1) if (text := self.normalize(source))]
        return dict(lines), {
            key: number for text, number in lines if (key := normalize_for_dedup(text))
        } if self.usual else {}

    def _leaks(self, source: str) -> list[PairIssue]:
        found = []
        for fault, (exactly, nearly) in self._held_out.items():
            line = exactly.get(source, 0)
            like = "" if line else " except for case and punctuation"
            if not line and nearly:
                line = nearly.get(normalize_for_dedup(source), 0)
            if line:
                found.append(
                    PairIssue(fault, 0, f"it is line {line:,} of `{self.held_out[fault][0]}`{like}", line=line)
                )
        return found

    def _beyond_the_usual(self, usual: CorpusProfile, sides: tuple[str, str]) -> list[PairIssue]:
        """Returns the issues that require a comparison with the rest of the corpus."""
        found: list[PairIssue] = []
        for side in self._texts:
            text, other = sides[side], sides[1 - side] if len(self._texts) == 2 else ""
            words = remove_addresses(text)
            scripts = letters_by_script(words)
            if detail := self._foreign(words, other, scripts, side):
                found.append(PairIssue("script", side, detail))
            elif "language" in self.rules and (detail := self._other_language(usual, words, other, scripts, side)):
                found.append(PairIssue("language", side, detail))
            if markup := self._markup(usual, sides, side):
                found.append(PairIssue("markup", side, shorten(markup)))
            if (part := letters_and_marks(text)) < self._fewest_letters[side] and len(text) >= FEWEST_LETTERS:
                found.append(PairIssue("letters", side, f"{part:.0%} of its characters".replace("%", " %")))
            repeated, times = repetition_in(text, self.limits.max_repetitions)
            if repeated:
                found.append(PairIssue("repetition", side, f"{times:,} times `{shorten(repeated)}`"))
            if word := longest_word(text, self.limits.max_word_length):
                found.append(PairIssue("long_word", side, f"{len(word):,} characters"))
            if self.limits.min_words > 1 and (length := self._length(text)) < self.limits.min_words:
                found.append(PairIssue("too_short", side, f"{length:,} {self.limits.length_unit}"))
        if apart := address_apart(sides[: len(self._texts)]):
            found.append(PairIssue("address", apart[0], shorten(apart[1]), "pairs"))
        if len(self._texts) == 2:
            found += self._check_both_sides(usual, *sides)
        # One issue of each kind: if both sides have it, the first side's is reported.
        return list({flaw.fault: flaw for flaw in reversed(found)}.values())[::-1]

    def _markup(self, usual: CorpusProfile, sides: tuple[str, str], side: int) -> str:
        """Returns the first markup of a side, or an empty string.

        Tags that are equal on both sides belong to the text if the corpus has many of them; entities never do.
        """
        if usual.markup > OWN and sorted(tags_in(sides[0])) == sorted(tags_in(sides[1])):
            return entity_in(sides[side])
        return markup_in(sides[side])

    def _foreign(self, text: str, other: str, scripts: Mapping[str, int], side: int) -> str:
        """Returns the reason why a line is in another script than its side, or an empty string.

        Letters are weighted by script. In a line that also has letters of its side's scripts, a word that appears on
        the other side as well, such as the name of a program, does not count as foreign.
        """
        letters, own = weight_by_alphabet(scripts), self._scripts[side]
        if sum(scripts.values()) < FEWEST_LETTERS or not own:
            return ""
        foreign = {script: count for script, count in letters.items() if script not in own}
        if sum(foreign.values()) <= self.limits.max_other_script * sum(letters.values()):
            return ""
        script = max(foreign, key=lambda script: foreign[script])
        if len(foreign) < len(letters):
            alone = Counter[str]()
            for name, word in _find_missing_words(words_by_script(text), other):
                alone[name] += len(word) if name in foreign else 0
            left = sum(weight_by_alphabet(alone).values())
            if left <= self.limits.max_other_script * (left + sum(letters.values()) - sum(foreign.values())):
                return ""
        return f"{scripts[script]:,} of {sum(scripts.values()):,} letters are {script}"

    def _other_language(
        self, usual: CorpusProfile, text: str, other: str, scripts: Mapping[str, int], side: int
    ) -> str:
        """Returns the reason why a line is in another language than its side, or an empty string.

        Uses a language identifier if the language is given, else the character statistics of both sides.
        """
        if sum(weight_by_alphabet(scripts).values()) < LONG_ENOUGH or not usual.languages:
            return ""
        if usual.kana[side] and "Kana" not in scripts and scripts.get("Han", 0) >= LONG_ENOUGH // 2:
            return "it has no Kana"
        language = usual.languages[side]
        if language.known(text) > MANY_KNOWN:
            return ""
        score = language.score(text)
        if language.deviations_below(score) < BELOW:
            return ""
        if self._identifier and (name := self.limits.languages[side]):
            found, probability = self._identifier.identify(text)
            return f"{found}, not {name} ({probability:.2f})" if found != name and probability > 0.9 else ""
        # Names that appear on both sides identify neither language: the result must be the same without such words.
        rest = remove_words(text, other)
        says_much = sum(weight_by_alphabet(letters_by_script(rest)).values()) >= LONG_ENOUGH
        if len(self._texts) == 2:
            others = usual.languages[1 - side]
            readings = [text, rest] if says_much else [text]
            if all(others.score(reading) > language.score(reading) + CLEARLY for reading in readings):
                return "it resembles the other side"
        # In scripts without spaces between words no word is known, so that only the letters count.
        unspaced = sum(scripts.get(script, 0) for script in UNSPACED) > 0.5 * sum(scripts.values())
        below = min(language.deviations_below(language.score(reading)) for reading in (text, rest))
        known = max(language.known(reading) for reading in (text, rest))
        # If half of a line is usually known, a lower threshold holds for a line without a known word.
        far = VERY_FAR if unspaced else FAR if known > 0 or language.usually_known < 0.5 else NOT_SO_FAR
        if not says_much or known > FEW_KNOWN or below < far:
            return ""
        return f"it resembles neither side ({below:.1f} standard deviations)"

    def _check_characters(self, text: str, side: int, undecoded: bool) -> list[PairIssue]:
        found = []
        if is_encoded_twice(text):
            found.append(PairIssue("mojibake", side, shorten(text)))
        elif character := control_character(text, self.data.normalize):
            found.append(PairIssue("control", side, character))
        if "\ufffd" in text and not undecoded:
            found.append(PairIssue("lost", side, shorten(text)))
        return found

    def _check_both_sides(self, usual: CorpusProfile, source: str, target: str) -> list[PairIssue]:
        found = []
        if self.limits.ratio_unit == "usual":
            log_ratio = 0.0 if usual.ratio is None else ratio(source, target) - usual.ratio
            off, than = math.exp(log_ratio), "times as long as usual"
        else:
            unit = self.limits.ratio_unit
            lengths = [len(text.split()) if unit == "words" else len(text) for text in (source, target)]
            off, than = lengths[1] / max(lengths[0], 1), f"times the {unit}"
        if max(off, 1 / off) > self.limits.max_ratio:
            found.append(PairIssue("ratio", 1, f"{off:.2g} {than}", "pairs"))
        numbers, others = numbers_in(source), numbers_in(target)
        if numbers and others and agreement(numbers, others) < self.limits.min_agreement:
            detail = f"{', '.join(map(str, numbers[:5]))} and {', '.join(map(str, others[:5]))}"
            found.append(PairIssue("numbers", 1, detail, "pairs"))
        return found


def shorten(line: str) -> str:
    """Returns a line, or its beginning, in printable characters."""
    shown = "".join(character if character.isprintable() else " " for character in line[:SHOWN].strip())
    return shown + ("..." if len(line) > SHOWN else "")


@lru_cache(maxsize=8)  # a pair is normalized more than once: to be checked, to be compared
def _normalize_stripped(text: str, form: str) -> str:
    return normalize(text, form).strip()


def _find_missing_words(words: Sequence[tuple[str, str]], other: str) -> list[tuple[str, str]]:
    """Returns the words, each with its script, that the other side lacks."""
    there = {word.casefold() for _, word in words_by_script(other)}
    return [(script, word) for script, word in words if word.casefold() not in there]


def _fewest_tokens(tokenizer: str) -> Callable[[str], int]:
    """Returns a function for a lower bound of a line's tokens, before a tokenizer is trained."""
    if tokenizer == "bytes":
        return lambda line: len(line.encode())
    return len if tokenizer == "characters" else lambda line: len(line.split())
