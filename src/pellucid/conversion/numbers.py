"""The numbers of both sides of a comparison: logits and log-probabilities."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.floating[Any]]


def token_log_probs(logits: Numbers | None, tokens: Sequence[int]) -> list[float]:
    """Returns the log-probabilities of tokens (T,) by logits (T, V)."""
    assert logits is not None
    wide = logits.astype(np.float64)
    top = wide.max(axis=-1, keepdims=True)
    log_probs = wide - top - np.log(np.exp(wide - top).sum(axis=-1, keepdims=True))
    return [float(row[token]) for row, token in zip(log_probs, tokens, strict=True)]
