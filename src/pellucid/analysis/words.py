"""Attention between words, from attention between the pieces that a vocabulary cuts them into."""

from collections.abc import Sequence

import numpy as np

from pellucid.errors import DataError
from pellucid.tracing.trace import Array, Token


def words_of(tokens: Sequence[Token]) -> list[list[int]]:
    """The places of each word's tokens, in order; a token that belongs to no word stands for itself."""
    groups: list[list[int]] = []
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        same = before is not None and token.word is not None and token.word == before.word
        if same and token.segment == (before.segment if before else 0):
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def word_tokens(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """A token for each word of words_of(): the pieces' texts one after another."""
    return tuple(
        tokens[group[0]]
        if len(group) == 1
        else Token(
            text="".join(tokens[place].written for place in group),
            piece="".join(tokens[place].piece for place in group),
            word=tokens[group[0]].word,
            segment=tokens[group[0]].segment,
        )
        for group in words_of(tokens)
    )


def merge_words(weights: Array, rows: Sequence[Token], columns: Sequence[Token]) -> Array:
    """(..., L, M) between tokens to (..., words of the rows, words of the columns).

    A word receives what its pieces receive together, and attends as they do on average: the sum over a word's keys, the
    mean over its queries (Clark et al. 2019, section 4.1). Rows still sum to one. Raises DataError where the weights'
    shape does not fit the tokens.
    """
    check_fit(weights, rows, columns)
    of_columns = [group[0] for group in words_of(columns)]
    of_rows = words_of(rows)
    summed = np.add.reduceat(weights, of_columns, axis=-1)
    sizes = np.array([len(group) for group in of_rows], dtype=np.float32)[:, None]
    merged: Array = np.add.reduceat(summed, [group[0] for group in of_rows], axis=-2).astype(np.float32) / sizes
    return merged


def check_fit(weights: Array, rows: Sequence[Token], columns: Sequence[Token]) -> None:
    """Raises DataError where (..., L, M) does not fit L rows and M columns, or there are none."""
    if weights.shape[-2:] != (len(rows), len(columns)) or not rows or not columns:
        raise DataError(
            f"attention weights of shape {weights.shape} do not fit {len(rows)} row and {len(columns)} column tokens"
        )
