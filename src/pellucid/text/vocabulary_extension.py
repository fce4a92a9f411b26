"""Extends the vocabulary of a trained SentencePiece BPE model with pieces learned from text of another language.

Byte pair encoding (Sennrich et al. 2016, "Neural machine translation of rare words with subword units", section 3.2) is
continued: the text is segmented by the model, and the most frequent pair of adjacent pieces is merged, repeatedly. New
pieces follow all existing pieces, in id and in merge order. A merge that would change the segmentation of other text,
such as text of the languages that the model was trained on, is skipped; so that text keeps its ids.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice, pairwise

from pellucid.errors import ConfigError
from pellucid.text.normalization import SPACE_MARK
from pellucid.text.remapped_sentencepiece import RemappedSentencePiece
from pellucid.text.sentencepiece_file import SentencePieceVocab, piece_message, read_pieces
from pellucid.text.subwords import SentencePieceTokenizer
from pellucid.text.tokenizer import TokenizerBase

CHARACTERS = 0.4
"""The largest share of single characters among the new pieces; rarer characters are written as bytes."""
LONGEST = 16
"""Characters of the longest piece, as in SentencePiece's training."""
LEAST = 2
"""The number of occurrences that a pair needs to become a piece."""
_LINES = 4096
"""Lines that are encoded together."""

Word = tuple[str, ...]
"""The pieces of a word; a character that is written as bytes counts as one piece."""


@dataclass(frozen=True)
class ExtendedTokenizer:
    """A tokenizer with new pieces, and the former ids of their text."""

    tokenizer: SentencePieceTokenizer | RemappedSentencePiece
    made_of: list[tuple[int, ...]]
    """The former ids of the text of each new piece, in the order of the new ids."""


def extend_vocabulary(
    tokenizer: TokenizerBase, new: Iterable[str], kept: Iterable[str], most: int, symbols: Sequence[str] = ()
) -> ExtendedTokenizer:
    """Returns a tokenizer with at most `most` new pieces, learned from `new`, and with symbols that are never split.

    Each text of `kept` keeps its ids, and so does any text whose pairs of adjacent pieces all occur in `kept`.

    Raises ConfigError for any tokenizer that is not BPE with byte fallback, since pieces cannot be appended to it.
    """
    pieces = check_appendable(tokenizer)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    seen, words = _SeenWords(), Counter[Word]()
    for word in _words(tokenizer, pieces, kept):
        seen.add(word)
    for word in _words(tokenizer, pieces, new):
        words[word] += 1
    characters = _characters(words, {*pieces.ids} | seen.characters, int(CHARACTERS * most))
    made_of: dict[str, Word] = {piece: (piece,) for piece in (*pieces.ids, *characters)}
    merged = _merges(_split_at_unknown(words, made_of), made_of, seen.side_by_side, most - len(characters))
    symbols = [symbol for symbol in dict.fromkeys(symbols) if symbol not in pieces.symbols]
    lowest = min(pieces.scores.values(), default=0.0)
    added = [piece_message(text, lowest - 1 - place) for place, text in enumerate((*merged, *characters))]
    added += [piece_message(symbol, 0.0, is_symbol=True) for symbol in symbols]
    ids = [tuple(i for part in made_of[text] for i in pieces.get_ids(part)) for text in (*merged, *characters)]
    # A new symbol, such as a language tag, is more similar to the other symbols than to the pieces that spell it.
    alike = tuple(pieces.symbols.values())
    ids += [alike or tuple(tokenizer.encode(symbol)) for symbol in symbols]
    return ExtendedTokenizer(SentencePieceTokenizer(tokenizer.proto + b"".join(added), tokenizer.kind), ids)


def check_appendable(tokenizer: TokenizerBase) -> SentencePieceVocab:
    """Returns the pieces of a tokenizer. Raises ConfigError if pieces cannot be appended."""
    pieces = read_pieces(tokenizer.proto) if isinstance(tokenizer, SentencePieceTokenizer) else None
    if pieces is None or pieces.algorithm != "bpe" or not pieces.byte_ids:
        kind = tokenizer.kind if pieces is None else pieces.algorithm
        without = " without byte fallback" if pieces is not None and not pieces.byte_ids else ""
        raise ConfigError(
            f"pieces of another language can only be appended to a bpe tokenizer, and this one is {kind}{without}",
            "train a new model of all languages",
        )
    assert isinstance(tokenizer, SentencePieceTokenizer)
    if tokenizer.size != len(tokenizer.pieces()):
        raise ConfigError(
            "pieces of another language cannot be appended: special ids follow the tokenizer's last piece",
            "train a new model of all languages",
        )
    return pieces


@dataclass
class _SeenWords:
    """The adjacent pieces and the characters of text that keeps its ids."""

    side_by_side: set[str] = field(default_factory=set)
    """Adjacent pieces, concatenated: SentencePiece merges any two whose concatenation is a piece."""
    characters: set[str] = field(default_factory=set)

    def add(self, word: Word) -> None:
        self.characters.update(piece for piece in word if len(piece) == 1)
        self.side_by_side.update(a + b for a, b in pairwise(word))


def _words(tokenizer: SentencePieceTokenizer, pieces: SentencePieceVocab, lines: Iterable[str]) -> Iterator[Word]:
    """Yields the words of lines as the tokenizer's pieces; a symbol ends a word."""
    names, byte_of = tokenizer.pieces(), {number: byte for byte, number in enumerate(pieces.byte_ids)}
    for ids in _encode(tokenizer, lines):
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


def _encode(tokenizer: SentencePieceTokenizer, lines: Iterable[str]) -> Iterator[list[int]]:
    lines = iter(lines)
    while batch := list(islice(lines, _LINES)):
        yield from tokenizer.encode_lines(batch)


def _characters(words: Counter[Word], not_these: set[str], most: int) -> list[str]:
    """Returns the most frequent characters of the words, except `not_these`, at most `most`."""
    counts = Counter[str]()
    for word, count in words.items():
        for piece in word:
            if len(piece) == 1 and piece not in not_these:
                counts[piece] += count
    ranked = sorted((-count, character) for character, count in counts.items() if count >= LEAST)
    return [character for _, character in ranked[:most]]


def _split_at_unknown(words: Counter[Word], known: Container[str]) -> Counter[Word]:
    """Returns the words as chunks of pieces that can be merged; a character that is not a piece stays bytes."""
    found = Counter[Word]()
    for word, count in words.items():
        chunk: list[str] = []
        for piece in (*word, ""):
            if piece in known:
                chunk.append(piece)
            elif chunk:
                found[tuple(chunk)] += count
                chunk = []
    return found


def _merges(counted: Counter[Word], made_of: dict[str, Word], barred: Container[str], most: int) -> list[str]:
    """Returns the next pieces of byte pair encoding, in order, and adds the parts of each to `made_of`.

    As in SentencePiece, a pair whose concatenation already is a piece is merged into it, and adds no new piece.
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
        if -least != pairs[pair] or -least < LEAST:  # the count is outdated, or too low for a piece
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
            words[place] = _merge(words[place], pair)
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


def _merge(word: Sequence[str], pair: tuple[str, str]) -> list[str]:
    found: list[str] = []
    for piece in word:
        if found and (found[-1], piece) == pair:
            found[-1] += piece
        else:
            found.append(piece)
    return found
