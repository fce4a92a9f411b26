"""The scores of a language model on a text: loss a token, perplexity, bits a byte."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pellucid.errors import DataError


@dataclass(frozen=True, kw_only=True, slots=True)
class TextScores:
    """The scores of a model on a text."""

    loss: float
    """Nats a token, the mean over all of them."""
    perplexity: float
    """e ** loss: compares only models of one vocabulary."""
    bits_per_byte: float
    """The bits for each byte of the text in UTF-8: compares models of any vocabulary."""
    tokens: int
    bytes: int
    texts: int
    """1 for a running text, else lines."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as json.dumps() takes them."""
        return asdict(self)

    def report(self) -> str:
        """Returns the scores as aligned lines for a terminal."""
        texts = "1 text" if self.texts == 1 else f"{self.texts:,} texts"
        return "\n".join(
            [f"loss           {self.loss:.4f} nats a token",
             f"perplexity     {self.perplexity:.3f}",
             f"bits a byte    {self.bits_per_byte:.4f}",
             f"{self.tokens:,} tokens, {self.bytes:,} bytes of {texts}"]
        )  # fmt: skip


def score_texts(log_probs: Sequence[Sequence[float]], num_bytes: int) -> TextScores:
    """Scores texts from the log-probability of each of their tokens (nats), and their length in UTF-8.

    Raises DataError where there is nothing to score.
    """
    tokens = sum(map(len, log_probs))
    if not tokens or not num_bytes:
        raise DataError(f"there is nothing to score: {tokens} tokens, {num_bytes} bytes")
    total = -math.fsum(value for values in log_probs for value in values)
    loss = total / tokens
    return TextScores(
        loss=loss,
        perplexity=math.exp(loss) if loss < 700 else math.inf,
        bits_per_byte=total / math.log(2) / num_bytes,
        tokens=tokens,
        bytes=num_bytes,
        texts=len(log_probs),
    )
