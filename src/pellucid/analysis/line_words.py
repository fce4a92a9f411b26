"""Tokens numbered by the words of a line as its reader counts them: by the spaces in it."""

from collections.abc import Sequence
from dataclasses import replace

from pellucid.errors import DataError
from pellucid.tracing.trace import Token


def by_spaces(tokens: Sequence[Token], line: str) -> tuple[Token, ...]:
    """The tokens with the number of the word of `line` that each begins in; alignments count these words.

    A tokenizer's own words may be others: it parts punctuation, or knows no spaces. Raises DataError where the tokens
    spell another text than the line, and make another number of words, too.
    """
    number_at = [number for number, word in enumerate(line.split()) for _ in word]
    written = ["".join(token.written.split()) for token in tokens]
    spelled = "".join(text for text, token in zip(written, tokens, strict=True) if not token.special)
    if spelled == "".join(line.split()):
        return _numbered(tokens, written, number_at)
    words = {token.word for token in tokens if token.word is not None}
    if words == set(range(len(line.split()))):  # lower-cased or normalised, or with unknown tokens
        return tuple(tokens)
    raise DataError(
        f"`{line[:60]}` has {len(line.split())} words, but its tokens spell `{spelled[:60]}` in {len(words)} words: "
        "which token is part of which word cannot be told",
        "align tokens with --tokens, or write a space around each word as the tokenizer knows it",
    )


def _numbered(tokens: Sequence[Token], written: Sequence[str], number_at: Sequence[int]) -> tuple[Token, ...]:
    found, place = [], 0
    for token, text in zip(tokens, written, strict=True):
        if token.special:
            found.append(token)
            continue
        # What adds nothing, as a lone space or a later byte of a character, goes with what stands before it, if any.
        at = min(place, len(number_at) - 1) if text else max(place - 1, 0)
        found.append(replace(token, word=number_at[at] if number_at else None))
        place += len(text)
    return tuple(found)
