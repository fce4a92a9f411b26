"""A glossary: finds the terms that a line requires, and the pieces with which a tokenizer writes a term."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from pellucid.errors import DataError, format_value
from pellucid.text.normalization import normalize
from pellucid.text.sentences import writes_spaces
from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.words import is_combining, word_spans

LEADS = ("a", "the", "1", ",")
"""Texts that are put before a term to find its ids in the middle of a sentence."""
LEADS_WITHOUT_SPACES = ("。", ",", "的")
WORDS_EACH = ("words", "spaces")
"""The kinds of tokenizers whose tokens are whole words."""
MOST_WORDS = 256
"""The most words of a source term: at each position of a line, at most this many words are compared."""
MOST_CUT = 64
"""The most pieces of a translation for which other segmentations are searched."""
MOST_SPELLINGS = 32
"""The most alternative segmentations of a term; the ones with the fewest pieces are kept."""


class Glossary:
    """Pairs of a source term and its translation; finds the source terms in a line.

    Terms match whole words, longest match first, from left to right. A lower-case source term matches any
    capitalization; a term with a capital matches only as it is written. If a source term has several translations, any
    of them is accepted.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Takes pairs with two non-empty sides. Raises DataError for a source term that is too long."""
        self._root = _TermNode()
        for source, target in pairs:
            exact = _words(source)
            if len(exact) > MOST_WORDS:
                raise DataError(
                    f"the source term `{format_value(source)}` has {len(exact):,} words or marks; at most "
                    f"{MOST_WORDS} are supported",
                    "split it into shorter terms, or leave it out",
                )
            node = self._root
            for word in exact:
                node = node.below.setdefault(word.casefold(), _TermNode())
            targets = node.forms.setdefault(" ".join(exact), [])
            if target not in targets:
                targets.append(target)

    def find_required(self, line: str) -> list[tuple[str, ...]]:
        """Returns the accepted translations of each source term in the line; each term is listed once."""
        words = _words(line)
        folded = [word.casefold() for word in words]
        found: dict[tuple[str, ...], None] = {}
        place = 0
        while place < len(words):
            size, targets = max(self._terms_at(place, words, folded), default=(1, []))
            if targets:
                found[tuple(dict.fromkeys(targets))] = None
            place += size
        return list(found)

    def find_all(self, line: str) -> set[str]:
        """Returns the translations of all source terms in a line, including terms within longer terms."""
        words = _words(line)
        folded = [word.casefold() for word in words]
        found = set[str]()
        for place in range(len(words)):
            for _, targets in self._terms_at(place, words, folded):
                found.update(targets)
        return found

    def _terms_at(self, place: int, words: Sequence[str], folded: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """Yields the number of words and the translations of each term that begins at `place`, the shortest first."""
        node: _TermNode | None = self._root
        for end in range(place, len(words)):
            assert node is not None
            node = node.below.get(folded[end])
            if node is None:
                return
            if node.forms and (targets := _select_written(node.forms, words[place : end + 1])):
                yield end + 1 - place, targets


@dataclass(slots=True)
class _TermNode:
    """A trie node: the terms that begin with the same words, with a child for each next word."""

    below: "dict[str, _TermNode]" = field(default_factory=dict)
    forms: dict[str, list[str]] = field(default_factory=dict)
    """The translations of the term that ends here, by the spelling of the term."""


def _select_written(forms: Mapping[str, Sequence[str]], words: Sequence[str]) -> list[str]:
    """Returns the translations of the forms of a term that match these words of a line."""
    return [target for form, own in forms.items() if form in (form.lower(), " ".join(words)) for target in own]


def _words(text: str) -> list[str]:
    """Returns the words and marks of a text; for scripts without spaces between words, its characters."""
    text = normalize(text, "nfc")
    words: list[str] = []
    for start, end in word_spans(text):
        word = text[start:end]
        if writes_spaces(word):
            words.append(word)
            continue
        starts = [i for i, character in enumerate(word) if not is_combining(character)]
        if words and starts[:1] != [0]:
            words[-1] += word[: starts[0] if starts else None]
        words += [word[start:end] for start, end in pairwise([*starts, len(word)])]
    return words


def has_words(text: str) -> bool:
    """Returns True if a text has a word or a mark that can be searched for in a line."""
    return bool(_words(text))


def is_whole_word(term: str) -> bool:
    """Returns True if a term ends in a letter that no other letter may follow.

    In Korean a particle may follow, and in scripts without spaces the next word.
    """
    last = unicodedata.normalize("NFC", term)[-1:]
    return last.isalnum() and writes_spaces(last) and not unicodedata.name(last, "").startswith("HANGUL")


class TermSpellings:
    """Computes the ids with which a tokenizer writes terms."""

    def __init__(self, tokenizer: TokenizerBase) -> None:
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
            if token[:1].isalnum() or is_combining(token[:1] or " ") or token.startswith("<0x")
        )

    def spell(self, term: str) -> tuple[list[int], list[list[int]], list[list[int]]]:
        """Returns the ids of a term: inside a sentence; only at the beginning of one; and in other segmentations.

        At the beginning the term may be capitalized.
        """
        inside = self._inside(term)
        forms = dict.fromkeys([term, term[:1].upper() + term[1:]])
        beginning = [ids for ids in map(self._tokenizer.encode, forms) if ids not in ([], inside)]
        return inside, beginning, self._other_pieces(inside)

    def _inside(self, term: str) -> list[int]:
        """Returns the ids of a term after another word, or after a mark in scripts without spaces."""
        encode, spaced = self._tokenizer.encode, writes_spaces(term)
        for lead in LEADS if spaced else LEADS_WITHOUT_SPACES:
            before, both = encode(lead), encode(f"{lead} {term}" if spaced else f"{lead}{term}")
            if both[: len(before)] == before and len(both) > len(before):
                return both[len(before) :]
        return encode(term)

    def _other_pieces(self, ids: Sequence[int]) -> list[list[int]]:
        """Returns the other segmentations of the same characters that have the fewest pieces."""
        cut = self._tokenizer.tokens(ids)
        if self._writes_words or len(ids) > MOST_CUT or any(piece not in self._pieces for piece in cut):
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
        """The ids of the tokens that are displayed as the characters that they decode to."""
        own = self._tokenizer
        special = {own.pad_id, own.bos_id, own.eos_id, own.unk_id}
        found: dict[str, int] = {}
        for number, token in enumerate(own.tokens(range(own.size))):
            if number not in special and not token.startswith("<"):
                found.setdefault(token, number)
        return found
