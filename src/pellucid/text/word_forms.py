"""Word forms: restores the case, the diacritics and the spelling of a text as the training text writes its words.

A model that was trained on "Ein Mann läuft ." reads "EIN MANN LÄUFT .", "ein mann lauft ." and "Ein Mnan läuft ." as
rare subwords. The word_forms of Moses (Koehn et al. 2007) counts the most frequent form of each word, and writes a text
whose case says nothing in these forms. Here diacritics and typing errors are restored in the same way.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from pellucid.errors import CheckpointError
from pellucid.files.reading import read_settings
from pellucid.files.writing import write_json

WORD_FORMS = "word_forms.json"
"""The file, in the folder of the model whose training text it describes."""
FORMAT = "pellucid-word-forms/1"
MOST_WORDS = 100_000
"""The most words: the most frequent ones."""
MOST_LETTERS = 40
BEGIN_UPPER = 0.9
"""The share of training lines that begin with a capital from which on a text without capitals is unusual."""
SHORTEST_TITLE = 4
"""The fewest words of a text that is read as a title if each of them begins with a capital."""
SHORTEST_LOWER = 3
"""The fewest words of a text without capitals that is read as one with capitals."""
SHORTEST_CORRECTED = 4
"""The fewest letters of a word whose spelling is corrected."""
FREQUENT = 3
"""The fewest occurrences of a word that can be the correction of another."""
TIMES_AHEAD = 5
"""The ratio of occurrences from which on the more frequent one of two possible corrections is made."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_CHUNK = re.compile(r"\S+")
_EDGES = "\"'„“”‚‘’«»‹›()[]¿¡.,;:!?…–—-"
"""Marks around a word; with any other one it is part of a name, an address or code."""
_BEGINNING = re.compile(r"(?:^|[.!?…:]['\"”’»)\]]*\s+|>\s*)[\"'„“‚‘«‹(\[¿¡–—-]*\s*$")
"""Matches the text before the first word of a sentence, after a tag such as <web>, too."""
_PLAIN = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
_SHARP_S = str.maketrans({"ß": "ss"})
_DIGRAPHS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "ß": "ss"})
"""The spelling of letters that a keyboard lacks."""

Case = Literal["upper", "lower", "title", "mixed"]
Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class RestoredLine:
    """A line as the model reads it."""

    text: str
    corrected: tuple[tuple[str, str], ...] = ()
    """The words whose spelling was corrected, each with its correction."""
    is_upper: bool = False
    """True if the line is in capitals, and was read in the usual case."""


@dataclass(frozen=True)
class WordForms:
    """The words of a training text in their usual forms."""

    words: dict[str, int]
    """The most frequent form of each word within a sentence, with its occurrences; the most frequent word first."""
    begins_upper: bool
    """True if nearly all lines begin with a capital."""
    is_complete: bool
    """True if `words` are all words of the text; if not, an unknown word may be a rare one, and is not corrected."""

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> Self | None:
        """Counts the forms of the words in lines; None if no word has capitals or diacritics.

        Words of scripts without case are not counted. The first word of a sentence counts as a word, but its case does
        not.
        """
        inner: Counter[str] = Counter()
        first: Counter[str] = Counter()
        count = upper = 0
        for line in lines:
            matches = [match for match in _WORD.finditer(line) if _is_cased(match[0]) and len(match[0]) <= MOST_LETTERS]
            count += bool(matches)
            upper += bool(matches) and matches[0][0][0].isupper()
            for match in matches:
                (first if _begins_sentence(line, match.start()) else inner)[match[0]] += 1
        totals: Counter[str] = Counter()
        for word, times in (*inner.items(), *first.items()):
            totals[word.lower()] += times
        forms: dict[str, tuple[int, str]] = {}
        for word, times in inner.items():
            forms[word.lower()] = max(forms.get(word.lower(), (0, "")), (times, word))
        ranked = sorted(totals, key=lambda word: (-totals[word], word))[:MOST_WORDS]
        words = {forms[word][1] if word in forms else word: totals[word] for word in ranked}
        begins_upper = upper >= BEGIN_UPPER * count > 0
        if not begins_upper and all(word == _strip(word.lower()) for word in words):
            return None
        return cls(words, begins_upper, len(totals) <= MOST_WORDS)

    def save(self, folder: Path) -> None:
        """Writes the file into a model folder and replaces an earlier one."""
        write_json(folder / WORD_FORMS, {"format": FORMAT, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """Reads the word forms of a model folder; None if the folder has none, as in earlier versions.

        Raises CheckpointError if the file is damaged.
        """
        path = folder / WORD_FORMS
        if not path.is_file():
            return None
        table = read_settings(path)
        words, facts = table.get("words"), [table.get(name) for name in ("begins_upper", "is_complete")]
        if not (
            table.get("format") == FORMAT
            and isinstance(words, dict)
            and len(words) <= MOST_WORDS
            and all(len(word) <= MOST_LETTERS and _WORD.fullmatch(word) for word in words)
            and all(type(count) is int for count in words.values())
            and all(isinstance(fact, bool) for fact in facts)
        ):
            raise CheckpointError(
                f"`{path}` is damaged: it is not a table of words", "remove it, and lines are read as they are written"
            )
        return cls(words, *facts)  # type: ignore[arg-type]  # they are bool

    def restore(self, line: str, protected: Ranges = (), *, corrects: bool = True) -> RestoredLine:
        """Returns a line in the usual forms of its words.

        The case is restored if it says nothing: if the line has only capitals, capitals at all words, or none. If the
        line has no diacritics, words that the training text lacks get them. Of the other unknown words a letter that
        is missing or doubled, or two letters in the wrong order, are corrected if one frequent word results.

        Args:
            protected: the ranges of the line that stay, as (start, end).
            corrects: if False, the spelling of unknown words is not corrected.
        """
        words = _find_words(line, protected)
        case = self._find_case([match[0] for match in words])
        if case == "mixed" and all(match[0].lower() in self._forms for match in words):
            return RestoredLine(line)
        lacks = case == "upper" or all(_strip(match[0]) == match[0] for match in words)
        restored, end, corrected = "", 0, list[tuple[str, str]]()
        for match in words:
            word, begins = match[0], _begins_sentence(line, match.start())
            form = self._forms.get(word.lower()) or (self._plain_forms.get(word.lower()) if lacks else None)
            may_be_name = case == "mixed" and word[0].isupper() and not begins
            is_known = form is not None
            if not is_known and corrects:
                form = self._correct(word.lower(), may_be_name=may_be_name)
            written = self._write(word, form, case, begins=begins, is_only=len(words) == 1)
            if not is_known and form is not None:
                corrected.append((word, written))
            restored += line[end : match.start()] + written
            end = match.end()
        restored += line[end:]
        return RestoredLine(restored, tuple(corrected), case == "upper" and restored != line)

    def _write(self, word: str, form: str | None, case: Case, *, begins: bool, is_only: bool) -> str:
        """Returns a word in its usual form; `begins` is True for the first word of a sentence."""
        if case == "mixed":
            if form is None or form.lower() == word.lower():
                return word
            return form[:1].upper() + form[1:] if word[0].isupper() else form
        if form is None:
            form = word.lower() if case == "upper" and not is_only else word
        return form[:1].upper() + form[1:] if begins and self.begins_upper else form

    def _find_case(self, words: Sequence[str]) -> Case:
        letters = "".join(words)
        if letters.lower() == letters.upper():  # none, or of a script without case
            return "mixed"
        if letters == letters.upper():
            return "upper" if max(map(len, words)) > 1 else "mixed"
        if letters == letters.lower():
            return "lower" if self.begins_upper and len(words) >= SHORTEST_LOWER else "mixed"
        return "title" if len(words) >= SHORTEST_TITLE and all(word[0].isupper() for word in words) else "mixed"

    def _correct(self, word: str, *, may_be_name: bool) -> str | None:
        """Returns the usual form of the frequent word that an unknown one, in lower case, is a misspelling of."""
        if not self.is_complete or not SHORTEST_CORRECTED <= len(word) <= MOST_LETTERS or not _is_cased(word):
            return None
        found = sorted({(-self._frequent[other], other) for other in self._list_edits(word) if other in self._frequent})
        if not found or (len(found) > 1 and found[0][0] > TIMES_AHEAD * found[1][0]):
            return None
        form = self._forms[found[0][1]]
        return None if may_be_name and form.islower() else form

    def _list_edits(self, word: str) -> Iterator[str]:
        """Yields a word with two letters exchanged, one less or one more; endings stay, since they are inflections."""
        for place in range(len(word) - 1):
            yield word[:place] + word[place + 1] + word[place] + word[place + 2 :]
        for place in range(1, len(word) - 1):
            yield word[:place] + word[place + 1 :]
            for letter in self._alphabet:
                yield word[:place] + letter + word[place:]

    @cached_property
    def _forms(self) -> dict[str, str]:
        return {word.lower(): word for word in self.words}

    @cached_property
    def _plain_forms(self) -> dict[str, str]:
        """The most frequent word with diacritics for each spelling without them."""
        found: dict[str, str] = {}
        for word in reversed(self.words):
            if not word.isascii():
                lowered = word.lower()
                for plain in {_strip(lowered), lowered.translate(_SHARP_S), lowered.translate(_DIGRAPHS)} - {lowered}:
                    found[plain] = word
        return found

    @cached_property
    def _frequent(self) -> dict[str, int]:
        return {word.lower(): count for word, count in self.words.items() if count >= FREQUENT}

    @cached_property
    def _alphabet(self) -> str:
        return "".join(sorted({letter for word in self._frequent for letter in word if letter.isalpha()}))


def save_word_forms(forms: WordForms | None, folder: Path) -> None:
    """Writes word forms into a model folder; None removes the file of another model."""
    if forms is None:
        (folder / WORD_FORMS).unlink(missing_ok=True)
    else:
        forms.save(folder)


def _find_words(line: str, protected: Ranges) -> list[re.Match[str]]:
    """Returns the words of a line that have only letters, outside of its protected ranges."""
    is_protected = bytearray(len(line))
    for start, end in protected:
        is_protected[start:end] = b"\1" * (end - start)
    found = []
    for chunk in _CHUNK.finditer(line):
        core = chunk[0].strip(_EDGES)
        start = chunk.start() + chunk[0].find(core)
        match = _WORD.fullmatch(line, start, start + len(core)) if core else None
        if match and not any(is_protected[start : match.end()]):
            found.append(match)
    return found


def _is_cased(word: str) -> bool:
    """Returns True if all letters of a word are of a script with upper and lower case."""
    return all(letter.lower() != letter.upper() or not letter.isalpha() for letter in word)


def _begins_sentence(line: str, start: int) -> bool:
    return start == 0 or _BEGINNING.search(line, max(0, start - 8), start) is not None


def _strip(text: str) -> str:
    """Returns a text without diacritics."""
    if text.isascii():
        return text
    marked = unicodedata.normalize("NFD", text.translate(_PLAIN))
    return unicodedata.normalize("NFC", "".join(c for c in marked if not unicodedata.combining(c)))
