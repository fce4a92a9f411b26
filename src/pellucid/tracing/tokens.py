"""Converts ids to tokens for display: their text, their spelling in the vocabulary, the word that they belong to.

Where several tokens spell one character in bytes, each shows the character with its own bytes: `안[EC 95]`, `안[88]`.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from pellucid.text.tokenizer import TokenizerBase
from pellucid.text.words import word_spans
from pellucid.tracing.token_text import Piece, guess_pieces, parse_pieces

# Thai, Lao, Burmese, Khmer, Japanese and Chinese have no spaces: the only visible word boundary is the token's.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


@dataclass(frozen=True, slots=True)
class Token:
    """Describes one position of a sequence."""

    text: str
    """The text that the token represents, as a reader would write it: "ing", " Hund", "안"."""
    piece: str
    """Its spelling in the vocabulary: "##ing", "▁Hund", "ìķĪ"."""
    id: int | None = None
    word: int | None = None
    """The index of the word that the token is a part of, counted from 0; None for a special token."""
    special: bool = False
    segment: int = 0
    """0, or 1 in the second of two texts that were read together."""
    adds: str | None = None
    """The text that the token adds to its word, if it differs from `text`: a character whose bytes are spread over
    several tokens is added by the first of them, and each shows it with its bytes, as `안[EC 95]`."""

    @property
    def text_in_word(self) -> str:
        """Returns the token's part of the text of its word."""
        return self.text if self.adds is None else self.adds

    def to_json(self) -> dict[str, Any]:
        """Returns the fields that describe the token alone, without its sequence."""
        return {"text": self.text, "piece": self.piece, "id": self.id}


def make_tokens(
    tokenizer: TokenizerBase, ids: Sequence[int], also_special: Collection[int] = (), segments: Sequence[int] = ()
) -> tuple[Token, ...]:
    """Returns the tokens of ids, as the tokenizer decodes them; `segments` has one number per id or is empty."""
    return _label(parse_pieces(tokenizer, ids, also_special), ids, segments)


def make_single_tokens(
    tokenizer: TokenizerBase | None, ids: Iterable[int], also_special: Collection[int] = ()
) -> dict[int, Token]:
    """Returns the token of each id by itself, without a word. Without a tokenizer its text is its number.

    The same holds for an id that the tokenizer lacks: a model's vocabulary may be larger.
    """
    found = {}
    for i in ids:
        known = tokenizer is not None and i < tokenizer.size
        (token,) = (
            make_tokens(tokenizer, [i], also_special) if known and tokenizer else tokens_of_ids([i], also_special)
        )
        found[i] = replace(token, word=None)
    return found


def tokens_of_ids(ids: Sequence[int], special: Collection[int] = (), segments: Sequence[int] = ()) -> tuple[Token, ...]:
    """Returns tokens that are labeled by their ids, each a separate word."""
    return _label([Piece(str(i), str(i).encode(), True, i in special) for i in ids], ids, segments)


def tokens_of_pieces(
    spelled: Sequence[str],
    ids: Sequence[int | None] = (),
    special: Sequence[bool] | None = None,
    segments: Sequence[int] = (),
) -> tuple[Token, ...]:
    """Returns the tokens of pieces without their tokenizer, as guess_pieces() parses them."""
    return _label(guess_pieces(spelled, special), ids or [None] * len(spelled), segments)


def _label(pieces: Sequence[Piece], ids: Sequence[int | None], segments: Sequence[int]) -> tuple[Token, ...]:
    """Returns the tokens of a sequence's pieces. Special tokens belong to no word, and words end at them."""
    found: list[Token] = []
    first_word = 0
    for special, group in groupby(pieces, key=lambda piece: piece.special):
        run = list(group)
        texts = [(piece.spelled, piece.spelled) for piece in run] if special else _texts(run)
        words = [None] * len(run) if special else _words(run, [adds for _, adds in texts], first_word)
        for piece, (text, adds), word in zip(run, texts, words, strict=True):
            place = len(found)
            segment = segments[place] if segments else 0
            adds_other = None if adds == text else adds
            found.append(Token(text, piece.spelled, ids[place], word, special, segment, adds_other))
        first_word = max([first_word, *(word + 1 for word in words if word is not None)])
    return tuple(found)


def _texts(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """Returns for each piece the text to show and the text to add; the first piece adds a shared character."""
    with suppress(UnicodeDecodeError):  # no character is spread over pieces
        return [(text, text) for text in [piece.content.decode("utf-8") for piece in pieces]]
    bounds = [0]
    for piece in pieces:
        bounds.append(bounds[-1] + len(piece.content))
    shown, added = [""] * len(pieces), [""] * len(pieces)
    data = b"".join(piece.content for piece in pieces)
    for start, end, character in _characters(data):
        place = bisect_right(bounds, start) - 1
        added[place] += character
        if character and end <= bounds[place + 1]:
            shown[place] += character
            continue
        while place < len(pieces) and bounds[place] < end:
            part = data[max(start, bounds[place]) : min(end, bounds[place + 1])]
            shown[place] += f"{character}[{part.hex(' ').upper()}]" if part else ""
            place += 1
    return list(zip(shown, added, strict=True))


def _characters(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yields start, end and character of UTF-8; the character is empty for invalid bytes."""
    place = 0
    while place < len(data):
        try:
            text, broken = data[place:].decode("utf-8"), (len(data), len(data))
        except UnicodeDecodeError as error:
            text = data[place : place + error.start].decode("utf-8")
            broken = place + error.start, place + error.end
        for character in text:
            end = place + len(character.encode("utf-8"))
            yield place, end, character
            place = end
        if broken[0] < broken[1]:
            yield *broken, ""
        place = broken[1]


def _words(pieces: Sequence[Piece], adds: Sequence[str], first: int) -> list[int]:
    """Returns the word index of each piece, counted from `first`."""
    told = all(piece.begins is not None for piece in pieces)
    begins = [bool(piece.begins) for piece in pieces] if told else _begins_by_text(adds)
    words, number = [], first - 1
    for place, begin in enumerate(begins):
        number += begin or place == 0
        words.append(number)
    return words


def _begins_by_text(adds: Sequence[str]) -> list[bool]:
    """Returns for each token True if a word begins there, by word_spans(); a space belongs to the word after it."""
    text = "".join(adds)
    ends = [end for _, end in word_spans(text)]
    begins: list[bool] = []
    start, last, blank = 0, -1, True
    for part in adds:
        first = start + len(text[start:]) - len(text[start:].lstrip())  # the next letter's position
        number = bisect_right(ends, first) if part and first < len(text) else last
        begins.append(number != last or (not blank and _stands_alone(text, start, part)))
        blank = part.isspace() if begins[-1] else blank and not part.strip()
        start, last = start + len(part), number
    return begins


def _stands_alone(text: str, start: int, part: str) -> bool:
    """Returns True if a token within a run of letters is a separate word, since its script has no spaces."""
    if not part or unicodedata.category(part[0]).startswith("M"):
        return False
    return bool(_UNSPACED.match(part) or _UNSPACED.match(text[start - 1 : start]))
