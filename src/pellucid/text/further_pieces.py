"""Further pieces for a trained SentencePiece model of bpe, learned from text of another language.

Byte pair encoding (Sennrich et al. 2016, "Neural machine translation of rare words with subword units", section 3.2) is
gone on with: the text is cut as the model cuts it, and the pair of pieces that stands side by side most often becomes
one, again and again. What is new stands behind all pieces that were there, in id and in order of merging. A merge
that would change how other text is cut, as that of the languages the model knows, is left out; so that text keeps
its ids.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice, pairwise

from pellucid.errors import ConfigError
from pellucid.text.normalization import SPACE_MARK
from pellucid.text.numbered import NumberedSubwords
from pellucid.text.sentencepiece_file import Pieces, piece_message, read_pieces
from pellucid.text.subwords import Subwords
from pellucid.text.tokenizer import CompleteTokenizer

CHARACTERS = 0.4
"""The most of the new pieces that are single characters; rarer ones are written as bytes."""
LONGEST = 16
"""Characters of the longest piece, as in SentencePiece's training."""
LEAST = 2
"""Times that a pair must occur to become a piece."""
_LINES = 4096
"""Lines that are cut together."""

Word = tuple[str, ...]
"""The pieces of a word, a character that is written as bytes being one."""


@dataclass(frozen=True)
class Longer:
    """A tokenizer with further pieces, and what they were before."""

    tokenizer: Subwords | NumberedSubwords
    made_of: list[tuple[int, ...]]
    """The ids that the text of each further piece had, in the order of the further ids."""


def with_pieces(
    tokenizer: CompleteTokenizer, new: Iterable[str], kept: Iterable[str], most: int, symbols: Sequence[str] = ()
) -> Longer:
    """Returns a tokenizer with `most` further pieces at most, learned from `new`, and with symbols that are never cut.

    Each text of `kept` has the ids that it had, and so has any text whose neighbouring pieces are all among theirs.

    Raises ConfigError for a tokenizer that nothing can be appended to: each but bpe with byte fallback.
    """
    pieces = check_appendable(tokenizer)
    assert isinstance(tokenizer, Subwords)
    seen, words = _Seen(), Counter[Word]()
    for word in _words(tokenizer, pieces, kept):
        seen.add(word)
    for word in _words(tokenizer, pieces, new):
        words[word] += 1
    characters = _characters(words, {*pieces.ids} | seen.characters, int(CHARACTERS * most))
    made_of: dict[str, Word] = {piece: (piece,) for piece in (*pieces.ids, *characters)}
    merged = _merges(_cut_at_unknown(words, made_of), made_of, seen.side_by_side, most - len(characters))
    symbols = [symbol for symbol in dict.fromkeys(symbols) if symbol not in pieces.symbols]
    lowest = min(pieces.scores.values(), default=0.0)
    added = [piece_message(text, lowest - 1 - place) for place, text in enumerate((*merged, *characters))]
    added += [piece_message(symbol, 0.0, is_symbol=True) for symbol in symbols]
    ids = [tuple(i for part in made_of[text] for i in pieces.ids_of(part)) for text in (*merged, *characters)]
    # A further symbol, as the tag of a language, is nearer to the others than to what it is spelled with.
    alike = tuple(pieces.symbols.values())
    ids += [alike or tuple(tokenizer.encode(symbol)) for symbol in symbols]
    return Longer(Subwords(tokenizer.proto + b"".join(added), tokenizer.kind), ids)


def check_appendable(tokenizer: CompleteTokenizer) -> Pieces:
    """Returns the pieces of a tokenizer. Raises ConfigError where nothing can be appended to them."""
    pieces = read_pieces(tokenizer.proto) if isinstance(tokenizer, Subwords) else None
    if pieces is None or pieces.algorithm != "bpe" or not pieces.byte_ids:
        kind = tokenizer.kind if pieces is None else pieces.algorithm
        without = " without byte fallback" if pieces is not None and not pieces.byte_ids else ""
        raise ConfigError(
            f"pieces of another language can be appended to a tokenizer of bpe, not to this one: {kind}{without}",
            "train a model of all languages anew",
        )
    assert isinstance(tokenizer, Subwords)
    if tokenizer.size != len(tokenizer.pieces()):
        raise ConfigError(
            "pieces of another language cannot be appended: special ids stand behind the tokenizer's last piece",
            "train a model of all languages anew",
        )
    return pieces


@dataclass
class _Seen:
    """The neighbours and the characters of text that keeps its ids."""

    side_by_side: set[str] = field(default_factory=set)
    """Neighbouring pieces, written as one: SentencePiece merges whatever two come to a piece."""
    characters: set[str] = field(default_factory=set)

    def add(self, word: Word) -> None:
        self.characters.update(piece for piece in word if len(piece) == 1)
        self.side_by_side.update(a + b for a, b in pairwise(word))


def _words(tokenizer: Subwords, pieces: Pieces, lines: Iterable[str]) -> Iterator[Word]:
    """Yields the words of lines as the tokenizer cuts them; a symbol ends one."""
    names, byte_of = tokenizer.pieces(), {number: byte for byte, number in enumerate(pieces.byte_ids)}
    for ids in _encoded(tokenizer, lines):
        word: list[str] = []
        unknown = bytearray()
        for number in (*ids, -1):
            if number in byte_of:
                unknown.append(byte_of[number])
                continue
            word += unknown.decode("utf-8", "replace")
            unknown.clear()
            name = names[number] if number >= 0 else ""
            begins = not name or name.startswith(SPACE_MARK) or name in pieces.symbols
            if begins and word:
                yield tuple(word)
            word = [*([] if begins else word), *([name] if name and name not in pieces.symbols else [])]


def _encoded(tokenizer: Subwords, lines: Iterable[str]) -> Iterator[list[int]]:
    lines = iter(lines)
    while batch := list(islice(lines, _LINES)):
        yield from tokenizer.encode_lines(batch)


def _characters(words: Counter[Word], not_these: set[str], most: int) -> list[str]:
    """Returns the most frequent characters of the words that may become pieces."""
    counts = Counter[str]()
    for word, count in words.items():
        for piece in word:
            if len(piece) == 1 and piece not in not_these:
                counts[piece] += count
    ranked = sorted((-count, character) for character, count in counts.items() if count >= LEAST)
    return [character for _, character in ranked[:most]]


def _cut_at_unknown(words: Counter[Word], known: Container[str]) -> Counter[Word]:
    """Returns the words as stretches of pieces that can be merged: a character that is none stays bytes."""
    found = Counter[Word]()
    for word, count in words.items():
        stretch: list[str] = []
        for piece in (*word, ""):
            if piece in known:
                stretch.append(piece)
            elif stretch:
                found[tuple(stretch)] += count
                stretch = []
    return found


def _merges(counted: Counter[Word], made_of: dict[str, Word], barred: Container[str], most: int) -> list[str]:
    """Returns the pieces that byte pair encoding goes on with, in their order, and adds to `made_of` what they were.

    Two that come to a piece which is there already become that one, as SentencePiece has it, and nothing is new.
    """
    words, counts = [list(word) for word in counted], list(counted.values())
    pairs, places = Counter[tuple[str, str]](), defaultdict[tuple[str, str], set[int]](set)
    for place, word in enumerate(words):
        for pair in pairwise(word):
            pairs[pair] += counts[place]
            places[pair].add(place)
    waiting = [(-count, pair) for pair, count in pairs.items()]
    heapify(waiting)
    found = list[str]()
    while waiting and len(found) < most:
        least, pair = heappop(waiting)
        if -least != pairs[pair] or -least < LEAST:  # it was counted again since, or is not worth a piece
            continue
        merged = pair[0] + pair[1]
        if merged in barred or len(merged) > LONGEST:
            continue
        if merged not in made_of:
            found.append(merged)
            made_of[merged] = made_of[pair[0]] + made_of[pair[1]]
        changed = set[tuple[str, str]]()
        for place in places.pop(pair):
            before = [*pairwise(words[place])]
            words[place] = _merged(words[place], pair)
            after = [*pairwise(words[place])]
            for each, times in ((before, -counts[place]), (after, counts[place])):
                for other in each:
                    pairs[other] += times
                    changed.add(other)
            for other in after:
                places[other].add(place)
        for other in changed:
            if pairs[other] >= LEAST:
                heappush(waiting, (-pairs[other], other))
    return found


def _merged(word: Sequence[str], pair: tuple[str, str]) -> list[str]:
    found: list[str] = []
    for piece in word:
        if found and (found[-1], piece) == pair:
            found[-1] += piece
        else:
            found.append(piece)
    return found
