"""The scores of a language model on a text: loss per token, perplexity, bits per byte."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pellucid.errors import DataError


@dataclass(frozen=True, kw_only=True, slots=True)
class TextScores:
    """The scores of a model on a text."""

    loss: float
    """Mean loss in nats per token."""
    perplexity: float
    """e ** loss: comparable only between models with the same vocabulary."""
    bits_per_byte: float
    """Bits per byte of the text in UTF-8: comparable between models with any vocabularies."""
    tokens: int
    bytes: int
    texts: int
    """1 for a running text, else the number of lines."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as a JSON-serializable dict."""
        return asdict(self)

    def report(self) -> str:
        """Returns the scores as aligned lines for a terminal."""
        texts = "1 text" if self.texts == 1 else f"{self.texts:,} texts"
        return "\n".join(
            [f"loss           {self.loss:.4f} nats per token",
             f"perplexity     {self.perplexity:.3f}",
             f"bits per byte  {self.bits_per_byte:.4f}",
             f"{self.tokens:,} tokens, {self.bytes:,} bytes of {texts}"]
        )  # fmt: skip


def score_texts(log_probs: Sequence[Sequence[float]], num_bytes: int) -> TextScores:
    """Scores texts from the log-probabilities of their tokens (nats) and their length in UTF-8 bytes.

    Raises DataError if there is nothing to score.
    """
    tokens = sum(map(len, log_probs))
    if not tokens or not num_bytes:
        raise DataError(f"nothing to score: {tokens} tokens, {num_bytes} bytes")
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
