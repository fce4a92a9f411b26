"""Simplifies weights for reading: averages heads, merges the tokens of a word, hides distracting tokens."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pellucid.errors import DataError
from pellucid.tracing.attention import Array, AttentionTrace
from pellucid.tracing.tokens import Token

Kept = npt.NDArray[np.bool_]


def all_weights(attention: AttentionTrace) -> Array:
    """Returns the weights of every head, (N, H, L, M)."""
    if attention.ready is not None:
        return attention.ready
    heads = range(attention.num_heads)
    return np.stack([[attention.weights(layer, head) for head in heads] for layer in range(attention.num_layers)])


def average_weights(attention: AttentionTrace, layer: int | None = None, head: int | None = None) -> Array:
    """Returns the weights of a head, (L, M); without `head` the mean of its layer, without `layer` the mean of all.

    Raises DataError for a head without a layer, or a layer or head that the attention does not have.
    """
    if layer is None and head is not None:
        raise DataError(f"`head` ({head}) needs a `layer`", f"choose one in 0..{attention.num_layers - 1}")
    layers = range(attention.num_layers) if layer is None else [layer]
    heads = range(attention.num_heads) if head is None else [head]
    mean: Array = np.mean([attention.weights(n, h) for n in layers for h in heads], axis=0, dtype=np.float32)
    return mean


def group_tokens_by_word(tokens: Sequence[Token]) -> list[list[int]]:
    """Returns the positions of each word's tokens, in order; a token that belongs to no word forms its own group."""
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
    """Returns a token for each word of group_tokens_by_word(), with the joined text of its tokens."""
    return tuple(
        tokens[group[0]]
        if len(group) == 1
        else Token(
            text="".join(tokens[place].text_in_word for place in group),
            piece="".join(tokens[place].piece for place in group),
            word=tokens[group[0]].word,
            segment=tokens[group[0]].segment,
        )
        for group in group_tokens_by_word(tokens)
    )


def merge_words(weights: Array, rows: Sequence[Token], columns: Sequence[Token]) -> Array:
    """Merges weights between tokens (..., L, M) to weights (..., words of the rows, words of the columns).

    A word receives the sum of its tokens' weights, and attends with their mean: the sum over a word's keys, the mean
    over its queries (Clark et al. 2019, section 4.1). Rows still sum to one. Raises DataError if the shape of the
    weights does not match the tokens.
    """
    check_fit(weights, rows, columns)
    of_columns = [group[0] for group in group_tokens_by_word(columns)]
    of_rows = group_tokens_by_word(rows)
    summed = np.add.reduceat(weights, of_columns, axis=-1)
    sizes = np.array([len(group) for group in of_rows], dtype=np.float32)[:, None]
    merged: Array = np.add.reduceat(summed, [group[0] for group in of_rows], axis=-2).astype(np.float32) / sizes
    return merged


def make_visible_mask(tokens: Sequence[Token], special: bool = True, sink: bool = True) -> Kept:
    """Returns the mask of visible tokens, bool (M,); special tokens and the first token (the sink) can be hidden."""
    return np.array(
        [(special or not token.special) and (sink or place > 0) for place, token in enumerate(tokens)], dtype=np.bool_
    )


def hide_tokens(
    weights: Array, rows: Sequence[Token], columns: Sequence[Token], kept_rows: Kept, kept_columns: Kept
) -> tuple[Array, float]:
    """Removes hidden rows and columns from weights (..., L, M), and scales each row to sum to one again.

    Returns the weights, with rows of zeros where all the weight was on hidden columns, and the share, 0 to 1, of the
    kept rows' weight on hidden columns. It precedes merge_words(), since rows are scaled one by one. Raises DataError
    if shapes do not match.
    """
    check_fit(weights, rows, columns)
    of_rows = weights[..., kept_rows, :]
    left = of_rows[..., kept_columns]
    sums = left.sum(axis=-1, keepdims=True)
    total = float(of_rows.sum())
    scaled: Array = np.divide(left, sums, out=np.zeros_like(left), where=sums > 0)
    return scaled, 1 - float(sums.sum()) / total if total else 0.0


def describe_hidden(hidden: Iterable[Token], share: float) -> str:
    """Returns the note on hidden tokens: "hidden: <s>, </s> (12 % of the weight of the rows shown)"; may be empty."""
    names = dict.fromkeys(token.text for token in hidden)
    if not names:
        return ""
    return f"hidden: {', '.join(names)} ({100 * share:.0f} % of the weight of the rows shown)"


def check_fit(weights: Array, rows: Sequence[Token], columns: Sequence[Token]) -> None:
    """Raises DataError if (..., L, M) does not match L rows and M columns, or if there are none."""
    if weights.shape[-2:] != (len(rows), len(columns)) or not rows or not columns:
        raise DataError(
            f"attention weights of shape {weights.shape} do not fit {len(rows)} row and {len(columns)} column tokens"
        )
