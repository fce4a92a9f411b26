"""A glossary: which of its terms a line asks for, and the pieces by which a tokenizer writes one."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from pellucid.text.normalization import normalize
from pellucid.text.sentences import writes_spaces
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.text.words import extends, word_spans

LEADS = ("a", "the", "1", ",")
"""The texts behind which a term is tried, to see how it is written in the middle of a sentence."""
LEADS_WITHOUT_SPACES = ("。", ",", "的")
WORDS_EACH = ("words", "spaces")
"""The kinds of tokenizers whose tokens are whole words."""
MOST_SPELLINGS = 32
"""The ways to write a term by other pieces that are known for it: those of the fewest pieces."""


class Glossary:
    """Pairs of a source term and its translation; looks for the source terms in a line.

    They are found as whole words, the longest first, from left to right. A source term in small letters is found
    however the line writes it; one with a capital only as it is written. Of several translations of a source term any
    will do.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Takes the pairs, of which neither side is empty."""
        self._entries: dict[tuple[str, ...], dict[str, list[str]]] = {}
        self._longest: dict[str, int] = {}
        for source, target in pairs:
            exact = _words(source)
            folded = tuple(word.casefold() for word in exact)
            targets = self._entries.setdefault(folded, {}).setdefault(" ".join(exact), [])
            if target not in targets:
                targets.append(target)
            self._longest[folded[0]] = max(len(folded), self._longest.get(folded[0], 0))

    def asked_by(self, line: str) -> list[tuple[str, ...]]:
        """Returns for each source term of the line its translations, one of which is to be written: each term once."""
        words = _words(line)
        folded = [word.casefold() for word in words]
        found: dict[tuple[str, ...], None] = {}
        place = 0
        while place < len(words):
            for size in range(min(self._longest.get(folded[place], 0), len(words) - place), 0, -1):
                forms = self._entries.get(tuple(folded[place : place + size]), {})
                if targets := _written_so(forms, words[place : place + size]):
                    found[tuple(dict.fromkeys(targets))] = None
                    place += size
                    break
            else:
                place += 1
        return list(found)

    def occurring(self, line: str) -> set[str]:
        """Returns the translations of all source terms that a line has, those within longer ones included."""
        words = _words(line)
        folded = [word.casefold() for word in words]
        found = set[str]()
        for place, first in enumerate(folded):
            for size in range(1, min(self._longest.get(first, 0), len(words) - place) + 1):
                forms = self._entries.get(tuple(folded[place : place + size]), {})
                found.update(_written_so(forms, words[place : place + size]))
        return found


def _written_so(forms: Mapping[str, Sequence[str]], words: Sequence[str]) -> list[str]:
    """Returns the translations of those forms of a term that these words of a line are."""
    return [target for form, own in forms.items() if form in (form.lower(), " ".join(words)) for target in own]


def _words(text: str) -> list[str]:
    """Returns the words and marks of a text; where no spaces stand between words, its characters."""
    text = normalize(text, "nfc")
    words: list[str] = []
    for start, end in word_spans(text):
        word = text[start:end]
        if writes_spaces(word):
            words.append(word)
            continue
        for character in word:
            if words and extends(character):
                words[-1] += character
            else:
                words.append(character)
    return words


def has_words(text: str) -> bool:
    """Tells whether a text has a word or a mark that a line can be searched for."""
    return bool(_words(text))


def is_whole_word(term: str) -> bool:
    """Tells whether a term ends in a letter behind which no other may stand.

    In Korean a particle may, and in scripts without spaces the next word.
    """
    last = unicodedata.normalize("NFC", term)[-1:]
    return last.isalnum() and writes_spaces(last) and not unicodedata.name(last, "").startswith("HANGUL")


class Spellings:
    """Says by which pieces a tokenizer writes terms."""

    def __init__(self, tokenizer: CompleteTokenizer) -> None:
        self._tokenizer = tokenizer
        self._writes_words = tokenizer.kind in WORDS_EACH

    @cached_property
    def continuing(self) -> frozenset[int]:
        """The ids of the tokens that continue the word before them."""
        if self._writes_words:
            return frozenset()
        shown = self._tokenizer.tokens(range(self._tokenizer.size))
        return frozenset(
            number
            for number, token in enumerate(shown)
            if token[:1].isalnum() or extends(token[:1] or " ") or token.startswith("<0x")
        )

    def of(self, term: str) -> tuple[list[int], list[list[int]], list[list[int]]]:
        """Returns how a term is written: in the middle of a sentence; at the very beginning alone; by other pieces.

        At the beginning it may have a capital.
        """
        inside = self._inside(term)
        forms = dict.fromkeys([term, term[:1].upper() + term[1:]])
        beginning = [ids for ids in map(self._tokenizer.encode, forms) if ids not in ([], inside)]
        return inside, beginning, self._other_pieces(inside)

    def _inside(self, term: str) -> list[int]:
        """Returns the ids of a term behind another word; where no space stands between them, behind a mark."""
        encode, spaced = self._tokenizer.encode, writes_spaces(term)
        for lead in LEADS if spaced else LEADS_WITHOUT_SPACES:
            before, both = encode(lead), encode(f"{lead} {term}" if spaced else f"{lead}{term}")
            if both[: len(before)] == before and len(both) > len(before):
                return both[len(before) :]
        return encode(term)

    def _other_pieces(self, ids: Sequence[int]) -> list[list[int]]:
        """Returns the other ways to cut the same characters into pieces: those of the fewest pieces."""
        cut = self._tokenizer.tokens(ids)
        if self._writes_words or any(piece not in self._pieces for piece in cut):
            return []
        text, longest = "".join(cut), max(map(len, self._pieces))
        ways: list[list[list[int]]] = [[[]]]
        for end in range(1, len(text) + 1):
            found = [
                [*way, self._pieces[piece]]
                for start in range(max(0, end - longest), end)
                if (piece := text[start:end]) in self._pieces
                for way in ways[start]
            ]
            ways.append(sorted(found, key=lambda way: (len(way), way))[:MOST_SPELLINGS])
        return [way for way in ways[-1] if way != list(ids)]

    @cached_property
    def _pieces(self) -> dict[str, int]:
        """The ids of the tokens that are shown by the characters which they write."""
        own = self._tokenizer
        special = {own.pad_id, own.bos_id, own.eos_id, own.unk_id}
        found: dict[str, int] = {}
        for number, token in enumerate(own.tokens(range(own.size))):
            if number not in special and not token.startswith("<"):
                found.setdefault(token, number)
        return found
