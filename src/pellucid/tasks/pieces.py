"""Where to cut a line that is longer than a model takes."""

from collections.abc import Sequence

SENTENCE_ENDS = frozenset(".!?…。！？।")
SPACES = ("▁", " ")  # how a token shows that a word begins
INNER_BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(0x80, 0xC0))  # of a character written as UTF-8 bytes


def cut(ids: Sequence[int], tokens: Sequence[str], limit: int) -> list[list[int]]:
    """Pieces of at most `limit` ids, each cut within the second half of what fits.

    The cut is behind the last sentence's end there, else between words, else between characters.
    """
    pieces, start = [], 0
    while len(ids) - start > limit:
        end = _cut_place(tokens[start : start + limit + 1]) + start
        pieces.append(list(ids[start:end]))
        start = end
    return [*pieces, list(ids[start:])]


def _cut_place(tokens: Sequence[str]) -> int:
    """The best place among the tokens to cut before; the last token is the first that does not fit."""
    places = range(len(tokens) - 1, len(tokens) // 2, -1)
    behind_sentences = (place for place in places if tokens[place - 1][-1:] in SENTENCE_ENDS)
    between_words = (place for place in places if tokens[place].startswith(SPACES))
    between_characters = (place for place in places if tokens[place] not in INNER_BYTES)
    for candidates in (behind_sentences, between_words, between_characters):
        if (place := next(candidates, None)) is not None:
            return place
    return len(tokens) - 1
