"""A glossary: which of its terms a line asks for, and the pieces by which a tokenizer writes one."""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from pellucid.text.normalization import normalize
from pellucid.text.sentences import writes_spaces
from pellucid.text.tokenizer import CompleteTokenizer
from pellucid.text.words import extends, word_spans

LEADS = ("a", "the", "1", ",")
"""The texts behind which a term is tried, to see how it is written in the middle of a sentence."""
WORDS_EACH = ("words", "spaces")
"""The kinds of tokenizers whose tokens are whole words."""
SPACE = "▁"
"""The character by which a token shows that a word begins."""
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
                if targets := [
                    target
                    for form, own in forms.items()
                    if form == form.lower() or form == " ".join(words[place : place + size])
                    for target in own
                ]:
                    found[tuple(dict.fromkeys(targets))] = None
                    place += size
                    break
            else:
                place += 1
        return list(found)


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


def tokens_that_continue(tokenizer: CompleteTokenizer) -> frozenset[int]:
    """Returns the ids of the tokens that continue the word before them."""
    return _continuing(tokenizer)


@lru_cache(maxsize=8)
def _continuing(tokenizer: CompleteTokenizer) -> frozenset[int]:
    if tokenizer.kind in WORDS_EACH:
        return frozenset()
    return frozenset(
        number
        for number, token in enumerate(tokenizer.tokens(range(tokenizer.size)))
        if token[:1].isalnum() or extends(token[:1] or " ") or token.startswith("<0x")
    )


def spellings(tokenizer: CompleteTokenizer, term: str) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Returns how a term is written: anywhere; at the very beginning alone; and anywhere by other pieces.

    The first is what the tokenizer makes of it in the middle of a sentence. At the beginning it may have a capital.
    """
    inside = _inside(tokenizer, term)
    capital = term[:1].upper() + term[1:]
    beginning = [ids for ids in map(tokenizer.encode, dict.fromkeys([term, capital])) if ids not in ([], inside)]
    return [inside], beginning, _other_pieces(tokenizer, inside)


def _inside(tokenizer: CompleteTokenizer, term: str) -> list[int]:
    """Returns the ids of a term behind another word; where no space stands between them, of a term alone."""
    for lead in LEADS if writes_spaces(term) else ("。", "的"):
        before = tokenizer.encode(lead)
        both = tokenizer.encode(f"{lead} {term}" if writes_spaces(term) else f"{lead}{term}")
        if both[: len(before)] == before and len(both) > len(before):
            return both[len(before) :]
    return tokenizer.encode(term)


def _other_pieces(tokenizer: CompleteTokenizer, ids: Sequence[int]) -> list[list[int]]:
    """Returns the other ways to cut the same characters into pieces: those of the fewest pieces."""
    pieces = _ids_of_pieces(tokenizer)
    cut = tokenizer.tokens(ids)
    if tokenizer.kind in WORDS_EACH or any(piece not in pieces for piece in cut):
        return []
    text = "".join(cut)
    longest = max(map(len, pieces))
    ways: list[list[list[int]]] = [[[]]]
    for end in range(1, len(text) + 1):
        found = [
            [*way, pieces[piece]]
            for start in range(max(0, end - longest), end)
            if (piece := text[start:end]) in pieces
            for way in ways[start]
        ]
        ways.append(sorted(found, key=lambda way: (len(way), way))[:MOST_SPELLINGS])
    return [way for way in ways[-1] if way != list(ids)]


@lru_cache(maxsize=8)
def _ids_of_pieces(tokenizer: CompleteTokenizer) -> dict[str, int]:
    """Returns the ids of the tokens that are shown by the characters which they write."""
    special = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id}
    shown = tokenizer.tokens(range(tokenizer.size))
    found: dict[str, int] = {}
    for number, token in enumerate(shown):
        if number not in special and not token.startswith("<"):
            found.setdefault(token, number)
    return found
