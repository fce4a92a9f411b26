"""Attention without the tokens that are in the way: what is left is scaled to sum to one, and the rest is told."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pellucid.analysis.words import check_fit
from pellucid.tracing.trace import Array, Token

Shown = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Hidden:
    """Weights without the hidden tokens."""

    weights: Array
    """(..., rows shown, columns shown); rows sum to one, or to zero where all their weight was on what is hidden."""
    share: float
    """The part, 0 to 1, of the weight of the rows shown that lay on the columns hidden."""


def shown_tokens(tokens: Sequence[Token], special: bool = True, sink: bool = True) -> Shown:
    """Which of a sequence's tokens are shown, bool (M,): all, or without special ones, or without the first (sink)."""
    return np.array(
        [(special or not token.special) and (sink or place > 0) for place, token in enumerate(tokens)], dtype=np.bool_
    )


def hide_tokens(
    weights: Array, rows: Sequence[Token], columns: Sequence[Token], shown_rows: Shown, shown_columns: Shown
) -> Hidden:
    """The weights (..., L, M) of the rows shown, (L,), on the columns shown, (M,), each row scaled to sum to one again.

    It comes before merge_words(): rows are scaled one by one. Raises DataError where shapes do not fit.
    """
    check_fit(weights, rows, columns)
    of_rows = weights[..., shown_rows, :]
    left = of_rows[..., shown_columns]
    sums = left.sum(axis=-1, keepdims=True)
    total = float(of_rows.sum())
    scaled: Array = np.divide(left, sums, out=np.zeros_like(left), where=sums > 0)
    return Hidden(scaled, 1 - float(sums.sum()) / total if total else 0.0)


def describe_hidden(hidden: Iterable[Token], share: float) -> str:
    """What a picture says of what it hides: "hidden: <s>, </s> (12 % of the weight of the rows shown)"; or nothing."""
    names = dict.fromkeys(token.text for token in hidden)
    if not names:
        return ""
    return f"hidden: {', '.join(names)} ({100 * share:.0f} % of the weight of the rows shown)"
