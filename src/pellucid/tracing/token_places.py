"""Locates tokens in the text that they spell, which a tokenizer may write in another case or Unicode form."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from pellucid.text.normalization import SPACE_MARK
from pellucid.tracing.tokens import Token

_UNKNOWN = re.compile(r"<\w+>|\[[A-Z]+\]|\u2047|\ufffd+")
"""The forms in which tokenizers write unknown text."""


@lru_cache(maxsize=16_384)  # characters and tokens return
def fold_text(text: str) -> str:
    """Returns a text without case, accents, spaces and invisible characters, in which its spellings may differ."""
    spelled = unicodedata.normalize("NFKD", text).casefold().replace(SPACE_MARK, "")
    return "".join(c for c in spelled if not c.isspace() and unicodedata.category(c) not in ("Mn", "Me", "Cf"))


def place_tokens(tokens: Sequence[Token], text: str) -> list[int | None] | None:
    """Returns the start of each token in a folded text, None for special ones; None if the tokens do not spell it.

    A token that adds no text, such as a lone space or a later byte of a character, belongs to the token before it, if
    any. An unknown token matches one character or more, up to the start of the next token.
    """
    found: list[int | None] = []
    place, unknown = 0, False
    for token in tokens:
        if token.special:
            found.append(None)
            continue
        written = fold_text(token.text_in_word)
        if _UNKNOWN.fullmatch(token.text_in_word.strip()) and not text.startswith(written, place):
            found.append(place)
            place, unknown = place + 1, True
            continue
        if unknown and written:
            place = text.find(written, place)
        if place < 0 or not text.startswith(written, place):
            return None
        found.append(place if written else max(place - 1, 0))
        place, unknown = place + len(written), unknown and not written
    return found if place == len(text) or (unknown and place <= len(text)) else None
